"""The hash by which a stored run knows its target: changes with what is computed, and only then."""

import functools
import itertools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import genbayes as gb
from genbayes.runs._fingerprint import fingerprint

BASE = """
import functools, types
import jax, jax.numpy as jnp, numpy as np
import helper
STEP = 0.1
TABLE = np.array([1.0, 2.0])
CALLS = [0]

def inner(x):
    return STEP * x

def fn(theta, z, scale=2.0):
    CALLS[0] += 1
    return helper.drift(theta["A"]) + inner(z) * scale + TABLE[0]

class Model:
    def __init__(self, size):
        self.size = size

    def __call__(self, theta, z):
        return self.size * inner(z)

jitted = jax.jit(fn)
partial = functools.partial(fn, scale=3.0)
model = Model(4)
"""
NUMBERS = itertools.count()  # no two modules of one name
HELPER = "def drift(a):\n    return 2 * a\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Run two files as a fresh program would, and give the fingerprint of a name of the first."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(name, change=("", ""), helper=HELPER):
        sys.modules.pop("helper", None)
        source = f"user_model_{next(NUMBERS)}"
        (tmp_path / "helper.py").write_text(helper)
        (tmp_path / f"{source}.py").write_text(BASE.replace(*change))
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return fingerprint(getattr(__import__(source), name))
        finally:
            sys.dont_write_bytecode = before

    return run


CHANGES = {
    "its own source": ("+ TABLE[0]", "- TABLE[0]"),
    "a function that it calls": ("return STEP * x", "return STEP * x * x"),
    "a number that that one uses": ("STEP = 0.1", "STEP = 0.2"),
    "an array": ("[1.0, 2.0]", "[1.0, 3.0]"),
    "a default": ("scale=2.0", "scale=2.5"),
}


@pytest.mark.parametrize("name", ["fn", "jitted", "partial"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_function_computes_changes_it(module, name, change):
    assert module(name, change) != module(name)


def test_a_file_that_a_function_imports_changes_it(module):
    assert module("fn", helper=HELPER.replace("2", "3")) != module("fn")


@pytest.mark.parametrize(
    "change", [("Model(4)", "Model(5)"), ("self.size * inner", "self.size + inner")]
)
def test_an_object_that_is_called_is_known_by_its_fields_and_its_class(module, change):
    assert module("model", change) != module("model")


@pytest.mark.parametrize(
    "change",
    [
        ("    CALLS[0]", "    # counts\n\n    CALLS[0]"),
        ("helper.drift( theta", "helper.drift(theta"),
        ("CALLS = [0]", "CALLS = [7]"),  # what the function itself writes to
        ("model = Model(4)", "unrelated = 3"),
    ],
)
@pytest.mark.parametrize("name", ["fn", "jitted", "partial"])
def test_what_changes_nothing_does_not(module, name, change):
    assert module(name, change) == module(name)


def test_the_noise_and_the_summary_of_a_simulator_count():
    def fn(theta, z):
        return theta["A"] + z

    hashes = {
        fingerprint(simulator)
        for simulator in (
            gb.Simulator(fn, noise=dist.Normal(0, 1)),
            gb.Simulator(fn, noise=dist.Normal(0, 2)),
            gb.Simulator(fn, noise=dist.Normal(0, 1), summary=jnp.exp),
            gb.Simulator(fn, noise=dist.TransformedDistribution(
                dist.Normal(0, 1), dist.transforms.AffineTransform(0, 2))),
            gb.Simulator(fn, noise=dist.TransformedDistribution(
                dist.Normal(0, 1), dist.transforms.AffineTransform(0, 3))),
        )
    }  # fmt: skip
    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), np.zeros(2, "f4")),
        (jax.random.key(0), jax.random.key(1)),
        ([1, 2], [[1], 2]),
        ({"a": 1}, {"a": True}),
        ({1, 2}, (1, 2)),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (gb.EnergyScore(beta=1.0), gb.EnergyScore(beta=1.5)),
        (lambda x: x + 1, lambda x: x + 2),
    ],
)
def test_values_that_differ_differ(left, right):
    assert fingerprint(left) != fingerprint(right)
    assert fingerprint(left) == fingerprint(left)


def test_things_that_hold_themselves_are_no_trouble():
    loop: list = []
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop)


def test_other_processes_find_the_same():
    code = textwrap.dedent("""
        import numpyro.distributions as dist, jax.numpy as jnp, genbayes as gb
        from genbayes.runs._fingerprint import fingerprint
        prior = gb.Prior(
            a=dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), b=dist.LogNormal(0, 1),
            c=dist.TruncatedNormal(0, 1, low=0), d=dist.Uniform(0, 4).expand([3]).to_event(1))
        before = fingerprint((prior, gb.tasks.g_and_k.univariate().simulator))
        prior.distributions[0].covariance_matrix  # which is remembered in the object
        assert fingerprint((prior, gb.tasks.g_and_k.univariate().simulator)) == before
        print(before)
    """)
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed},
            check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
