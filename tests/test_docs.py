"""What README and CONTRIBUTING say is true: the example runs, the names and files exist."""

import re
import runpy
from pathlib import Path

import pytest

import genbayes as gb

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
# the example as it stands, but for how long it takes
SHORTER = {"num_samples=100_000": "num_samples=200", "num_warmup=10_000": "num_warmup=50"}


def example() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    for long, short in SHORTER.items():
        assert code.count(long) == 1, f"the example no longer says {long}"
        code = code.replace(long, short)
    return code


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(example())
    run = runpy.run_path("example.py")["run"]
    assert isinstance(run, gb.Run)
    assert run.draws["A"].shape == (1, 200)
    assert "AdSGLD: 1 x 200 draws" in capsys.readouterr().out
    for made in ("marginals.png", "report.html", "runs/g_and_k/manifest.json"):
        assert (tmp_path / made).stat().st_size > 0


def test_the_example_is_about_twenty_lines():
    assert len([line for line in example().splitlines() if line.strip()]) <= 20


def test_observations_of_the_readme_are_those_of_the_demo():
    (listed,) = re.findall(r"^y = \[(.*)\]$", README, flags=re.MULTILINE)
    y = gb.tasks.g_and_k.univariate().generate(seed=0, num_observations=10)
    if y.dtype == "float32":  # the generator draws other numbers in double precision
        assert [float(v) for v in listed.split(",")] == pytest.approx(y.tolist(), abs=0.005)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page):
    named = set(
        re.findall(r"(?:`|^    )make ([a-z0-9-]+)", (ROOT / page).read_text(), re.MULTILINE)
    )
    assert named <= make_targets()


def test_every_make_target_is_explained():
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == make_targets()


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    text = (ROOT / page).read_text()
    linked = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    quoted = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./]+)`", text)
    for path in (*linked, *quoted):
        if "_name" not in path:
            assert (ROOT / path).exists(), f"{page} names {path}"


def test_samplers_of_the_readme_exist():
    rows = re.findall(r"^\| (`.*?) \|", README, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert len(named) >= 5
    assert named <= set(gb._HOME)


def test_names_of_the_changelog_exist():
    text = (ROOT / "CHANGELOG.md").read_text()
    for name in re.findall(r"`([A-Z]\w+)`", text):
        assert name in gb._HOME, f"CHANGELOG.md names {name}"


def test_pictures_are_small_and_described():
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", README)
    assert pictures
    for text, path in pictures:
        assert len(text) > 20, f"{path} needs words for those who cannot see it"
        assert (ROOT / path).stat().st_size < 150_000


def test_no_registry_address_is_written_down():
    for path in (ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile"):
        assert not re.search(r"index-url|https?://|file://", path.read_text()), path


def test_pins_are_exact_and_cover_what_is_required():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    pinned = {pin.split("==")[0].lower().replace("_", "-") for pin in pins}
    required = re.findall(r'^  "([\w-]+)[>=]=', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(required) > 10
    assert {name.lower() for name in required} <= pinned
