"""The architecture as a test: imports go down the layers only, and files stay small."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "genbayes"
# top to bottom: a layer imports those after it; names in one row do not know each other
LAYERS = (
    ("__main__",),
    ("cli",),
    ("paper",),
    ("reports",),
    ("plots",),
    ("tuning",),
    ("diagnostics",),
    ("runs",),
    ("samplers",),
    ("targets",),
    ("scores",),
    ("tasks",),
    ("problem",),
    ("_result",),
    ("kernels", "_tree", "_table", "_convergence", "_figure"),
    ("_checks",),
    ("_types",),
    ("_workers",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
HEAVY = ("matplotlib", "arviz", "dask", "torch", "zarr", "typer", "jinja2")
LONGEST_FILE, LONGEST_BODY = 400, 80
FILES = sorted(SOURCE.rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and full dotted path, below genbayes, of everything of ours that a file imports."""
    package = ["genbayes", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            found = [[*module, alias.name] for alias in node.names]
        else:
            continue
        yield from ((node.lineno, words[1:]) for words in found if words[0] == "genbayes")


@pytest.mark.parametrize("path", FILES, ids=named)
def test_imports_go_down(path):
    if path == SOURCE / "__init__.py":
        pytest.skip("the front page points to every layer, and imports them when asked")
    here = layer(path)
    for line, words in imported_modules(path):
        there = words[0] if words else "__init__"
        if there == here or there == "__version__":
            continue
        if here == "cli" and there not in RANK:  # the command uses the front page, as users do
            continue
        assert there in RANK, f"{path}:{line} imports {there}, which is in no layer"
        assert RANK[here] < RANK[there], f"{path}:{line}: {here} must not import {there}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_private_files_stay_in_their_folder(path):
    for line, words in imported_modules(path):
        if words and words[0] != layer(path) and not words[0].startswith("_"):
            hidden = [word for word in words[1:-1] if word.startswith("_")]
            assert not hidden, f"{path}:{line} reaches into {'.'.join(words)}: use {words[0]}"


def test_every_module_is_in_a_layer():
    assert {layer(path) for path in FILES} - {"__init__"} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_sizes(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE, f"{path} is longer than {LONGEST_FILE} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = body_length(node)
            assert length <= LONGEST_BODY, f"{path}:{node.lineno}: {node.name} has {length} lines"


def body_length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    if not body or body[-1].end_lineno is None:
        return 0
    return body[-1].end_lineno - body[0].lineno + 1


def test_most_bodies_are_short():
    trees = [ast.parse(path.read_text()) for path in FILES]
    lengths = [
        body_length(node)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    short = sum(length <= 20 for length in lengths) / len(lengths)
    assert short >= 0.9, f"{short:.0%} of the function bodies have at most 20 lines"


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


USE = """
import sys
import genbayes as gb
assert "jax" not in sys.modules, "import genbayes imports JAX"
target = gb.ScorePosterior(
    gb.tasks.normal_location().problem(), gb.EnergyScore(), num_simulations=10
)
run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=5, progress=False)
run.summary()
print(*sorted(name for name in {heavy} if name in sys.modules))
"""


def test_sampling_imports_nothing_heavy():
    assert run_python(USE.format(heavy=HEAVY)).split() == []


def test_the_command_imports_nothing_heavy():
    code = """
import sys
from genbayes.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
print("HEAVY", *[name for name in ("jax", "numpy", "matplotlib", "jinja2") if name in sys.modules])
"""
    assert run_python(code).splitlines()[-1].split() == ["HEAVY"]


def type_checking_names() -> tuple[set[str], dict[str, str]]:
    """Stages, and names by stage, that `genbayes/__init__.py` shows to a type checker."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    stages: set[str] = set()
    names: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, f"write `{alias.name} as {alias.name}`"
            if node.module is None:
                stages.add(alias.name)
            else:
                names[alias.name] = node.module
    return stages, names


def test_type_checkers_see_what_is_there():
    import genbayes

    stages, names = type_checking_names()
    assert stages == set(genbayes._STAGES)
    assert names == genbayes._HOME


def test_every_public_name_can_be_had():
    import genbayes

    for name in genbayes.__all__:
        assert getattr(genbayes, name) is not None
    assert set(genbayes.__all__) <= set(dir(genbayes))


def test_an_unknown_name_is_refused():
    import genbayes

    with pytest.raises(AttributeError, match="genbayes has no attribute 'smaple'"):
        _ = genbayes.smaple


def test_stages_are_modules_of_their_name():
    import genbayes

    for stage in genbayes._STAGES:
        assert getattr(genbayes, stage) is importlib.import_module(f"genbayes.{stage}")
