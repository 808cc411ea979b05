"""Pages of the reference, a page for a stage, made of signatures and docstrings."""

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File

import genbayes as gb

# of these, users meet only what is listed on the front page
BEHIND = ("problem", "targets", "runs", "reports")
FENCED = re.compile(r"```python\n(>>> .*?)\n+```", re.DOTALL)
EXAMPLE = re.compile(r"(^>>> .*?)(?=\n\s*\n(?!>>> )|\Z)", re.DOTALL | re.MULTILINE)


def on_files(files, config):
    """Called by MkDocs with the files of the site."""
    for stage in gb._STAGES:
        files.append(File.generated(config, f"reference/{stage}.md", content=page(stage)))
    return files


def page(stage: str) -> str:
    """A stage: what its docstring says, then each of its public names."""
    module = importlib.import_module(f"genbayes.{stage}")
    parts = [f"# {stage}", text(module)]
    # what users meet as gb.NAME comes first, base classes last
    order = sorted(
        names(stage, module), key=lambda item: (item[0].count("."), "Abstract" in item[0])
    )
    for name, value in order:
        parts += [f"## `{name}`", entry(value)]
    return "\n\n".join(parts) + "\n"


def names(stage: str, module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Public functions and classes, under the name that users write."""
    if stage in BEHIND:
        yield from ((f"gb.{name}", getattr(gb, name)) for name in gb._STAGES[stage])
        return
    for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
        inner = isinstance(value, types.ModuleType) and f"{module.__name__}.{name}"
        if inner and inner == value.__name__ and not name.startswith("_"):
            for further, found in names(stage, value):
                yield f"gb.{stage}.{name}.{further.rpartition('.')[2]}", found
        elif not name.startswith("_") and is_ours(value, module):
            yield f"gb.{name}" if name in gb._HOME else f"gb.{stage}.{name}", value


def is_ours(value: Any, module: types.ModuleType) -> bool:
    """A folder shows what it re-exports, a file what it defines."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    if hasattr(module, "__path__"):
        return value.__module__.startswith("genbayes.")
    return value.__module__ == module.__name__


def entry(value: Any) -> str:
    """Signature, docstring and, of a class, its public methods."""
    parts = [signature(value), text(value)]
    if inspect.isclass(value):
        for name, method in sorted(methods(value)):
            parts += [f"### `{value.__name__}.{name}`", signature(method), text(method)]
    return "\n\n".join(part for part in parts if part)


def methods(value: type) -> Iterator[tuple[str, Any]]:
    """What the class adds for users: a method that implements one of its base is shown there."""
    inherited = {name for base in value.__mro__[1:] for name in vars(base)}
    for name in vars(value).keys() - inherited:
        method = inspect.getattr_static(value, name)
        method = getattr(method, "method", getattr(method, "__func__", method))
        if inspect.isfunction(method) and not name.startswith("_") and method.__doc__:
            yield name, method


def signature(value: Any) -> str:
    """The call, as code."""
    parameters = inspect.signature(value)
    shown = [p.replace(annotation=inspect.Parameter.empty) for p in parameters.parameters.values()]
    call = parameters.replace(parameters=shown, return_annotation=inspect.Signature.empty)
    return f"```python\n{value.__name__}{call}\n```"


def text(value: Any) -> str:
    """A docstring, its examples in fences."""
    plain = FENCED.sub(r"\1", inspect.getdoc(value) or "")
    return EXAMPLE.sub(r"```pycon\n\1\n```", plain)
