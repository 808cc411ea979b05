"""External programs as simulators, with a real program: Python without its site-packages."""

import io
import json
import sys

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import genbayes as gb
from genbayes._workers import Program
from genbayes._workers._draw import DrawError
from genbayes._workers._program import read

PYTHON = [sys.executable, "-S", "-E", "-c"]
NORMAL = """
import random, sys
random.seed(int(sys.argv[2]))
print(random.gauss(float(sys.argv[1]), 1.0))
"""
BROKEN = """
import sys
a = float(sys.argv[1])
if a == 1: print("bad inlet", file=sys.stderr); sys.exit(3)
if a == 2: print("no number")
if a == 3: import time; time.sleep(987)
if a == 4: import os; os.kill(os.getpid(), 11)
print(a)
"""


def test_draws_depend_on_parameters_and_seed_alone():
    simulator = gb.Command([*PYTHON, NORMAL, "{mean}", "{seed}"])
    found = simulator.simulate_many({"mean": np.array([0.0, 5.0])}, [7, 8])
    import random

    expected = [random.Random(seed).gauss(mean, 1.0) for mean, seed in ((0.0, 7), (5.0, 8))]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_each_way_to_fail_has_its_words():
    simulator = gb.Command([*PYTHON, BROKEN, "{a}", "{seed}"], timeout=1.0)
    simulator.runtime.event = ()
    found = [simulator.try_draw({"a": float(a)}, np.array([1])) for a in range(5)]
    assert found[0] == 0.0
    messages = [why.message for why in found[1:]]
    assert messages[0] == "the program ended with exit code 3: bad inlet"
    assert messages[1].startswith("stdout cannot be read (json)")
    assert messages[2] == "stopped after 1 s (timeout)"
    assert messages[3] == "the program was killed by SIGSEGV"
    assert found[1].details == "bad inlet\n"


def test_a_run_keeps_what_a_program_said(tmp_path):
    program = "import sys, random; random.seed(int(sys.argv[2])); x = random.random(); "
    program += "x < 0.1 and sys.exit('leak'); print(x + float(sys.argv[1]))"
    simulator = gb.Command([*PYTHON, program, "{a}", "{seed}"])
    prior = gb.Prior(a=dist.Uniform(0, 1))
    problem = gb.Problem(prior, simulator, [0.9, 1.1])
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=3)
    run = gb.sample(
        target, gb.PseudoMarginal(1.0), num_samples=8, progress=False, store=tmp_path / "run"
    )
    loaded = gb.load(tmp_path / "run")
    assert list(loaded.failures) == list(run.failures)
    assert len(run.failures) > 0
    assert loaded.failures[0].details == "leak\n"
    lines = (tmp_path / "run" / "failures.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["details"] == "leak\n"
    assert "{a}" in loaded.provenance["target"]["simulator_function"]


def test_parameters_on_stdin():
    program = "import json, sys; x = json.load(sys.stdin); print(json.dumps("
    program += "[sum(x['theta']['b']) + x['theta']['a'], x['seed']]))"
    simulator = gb.Command([*PYTHON, program], stdin="json")
    theta = {"a": np.array([0.5]), "b": np.array([[1.0, 2.0]])}
    np.testing.assert_array_equal(simulator.simulate_many(theta, [9]), [[3.5, 9.0]])


def test_arrays_and_braces_in_arguments():
    program = Program((*PYTHON, "import sys; print(sys.argv[1:])", "{b}", "{b[1]}", "{{x}}"), str)
    assert program({"b": np.array([1.5, 2.5])}, 3) == "['[1.5, 2.5]', '2.5', '{x}']\n"


@pytest.mark.parametrize("form", ["json", "csv", "npy"])
def test_formats(form):
    array = np.array([[1.25, -2.5, 3e9], [0.0, 1e-7, 7.0]])
    npy = io.BytesIO()
    np.save(npy, array)
    text = "\n".join(",".join(map(repr, map(float, row))) for row in array)
    data = {
        "json": json.dumps(array.tolist()).encode(),
        "csv": text.encode(),
        "npy": npy.getvalue(),
    }
    np.testing.assert_array_equal(read(data[form], form), array)


def test_no_pickle_in_npy():
    npy = io.BytesIO()
    np.save(npy, np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read(npy.getvalue(), "npy")


def test_a_program_that_is_not_there():
    with pytest.raises(DrawError, match=r"could not be started: .*no-such-program"):
        Program(("./no-such-program",))({}, 1)


def test_the_draw_of_a_parse_function():
    simulator = gb.Command(
        [*PYTHON, "print('x=3 y=4')", "{seed}"],
        parse=lambda text: [float(word.split("=")[1]) for word in text.split()],
    )
    np.testing.assert_array_equal(simulator.simulate(jax.random.key(0), {}, 1), [[3.0, 4.0]])


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("./sim {a}", TypeError, r"command must be a list of words"),
        ([], ValueError, r"command must name a program"),
        (["./sim", "{a}"], ValueError, r"never see its seed: have a word with \{seed\}"),
        (["awk", "{ print }}", "{seed}"], ValueError, r"double those"),
    ],
)
def test_refusals(command, error, message):
    with pytest.raises(error, match=message):
        gb.Command(command)


def test_unknown_formats():
    with pytest.raises(ValueError, match="parse must be one of 'json', 'csv', 'npy'"):
        gb.Command(["./sim", "{seed}"], parse="xml")
