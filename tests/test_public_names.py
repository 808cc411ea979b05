"""Every name that users meet says in one line what it is, and shows how it is used."""

import inspect
import types
from typing import Any

import pytest

import genbayes as gb
from genbayes._result import AbstractResult

# in these, the names that users do not meet as genbayes.NAME serve the layers above
BEHIND = ("problem", "targets", "runs", "reports")
WITHOUT_EXAMPLE = {
    "Run": "made by sample, which shows it",
    "Prepared": "made by a score's prepare",
    "Task": "made by the functions of tasks",
}


def public() -> dict[str, Any]:
    """Each function and class of ours that is re-exported by the package or one of its stages."""
    found = {name: getattr(gb, name) for name in gb._HOME}
    for stage in set(gb._STAGES) - set(BEHIND):
        module = getattr(gb, stage)
        nested = [module, *[x for x in vars(module).values() if isinstance(x, types.ModuleType)]]
        for place in nested:
            if not place.__name__.startswith("genbayes.") or "._" in place.__name__:
                continue
            found |= {
                name: value
                for name, value in vars(place).items()
                if not name.startswith("_") and is_ours(value) and is_shown(place, name, value)
            }
    return dict(sorted(found.items()))


def is_ours(value: Any) -> bool:
    named = inspect.isclass(value) or inspect.isfunction(value)
    return named and value.__module__.startswith("genbayes.")


def is_shown(place: types.ModuleType, name: str, value: Any) -> bool:
    """A folder shows what it re-exports; a file shows what it defines."""
    return hasattr(place, "__path__") or value.__module__ == place.__name__


PUBLIC = public()


@pytest.mark.parametrize("name", PUBLIC)
def test_has_a_docstring(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert text, f"{name} has no docstring"
    assert text.splitlines()[0].rstrip().endswith((".", "$", ":")), f"{name}: one line, a full stop"


@pytest.mark.parametrize("name", PUBLIC)
def test_shows_an_example(name):
    value = PUBLIC[name]
    if name in WITHOUT_EXAMPLE or name.startswith("Abstract") or inspect.isabstract(value):
        pytest.skip(WITHOUT_EXAMPLE.get(name, "a base class: its subclasses show examples"))
    if inspect.isclass(value) and issubclass(value, AbstractResult):
        pytest.skip("a result: the function that gives it shows an example")
    assert ">>> " in (value.__doc__ or ""), f"the docstring of {name} has no example"


def test_exemptions_exist_and_are_needed():
    unknown = set(WITHOUT_EXAMPLE) - set(PUBLIC)
    assert not unknown, f"not public any more: {unknown}"
    shown = {name for name in WITHOUT_EXAMPLE if ">>> " in (PUBLIC[name].__doc__ or "")}
    assert not shown, f"these show an example, and need no exemption: {shown}"


@pytest.mark.parametrize("name", PUBLIC)
def test_parameters_are_typed(name):
    value = PUBLIC[name]
    for parameter in inspect.signature(value).parameters.values():
        typed = parameter.annotation is not inspect.Parameter.empty
        assert typed, f"{name}: the parameter {parameter.name} has no type"
