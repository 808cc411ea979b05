"""Samplers by the names of the command, and their settings from text."""

import ast
import difflib
import inspect
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, Union

import jax

import genbayes as gb

from ..samplers import AbstractSampler
from ._errors import UsageError

CLASSES = {
    "adsgld": "AdSGLD",
    "psgld": "PSGLD",
    "sgld": "SGLD",
    "sghmc": "SGHMC",
    "pm": "PseudoMarginal",
    "pm-nuts": "PseudoMarginalNUTS",
    "frozen-nuts": "FrozenNUTS",
    "nuts": "NUTS",
    "smc-abc": "SMCABC",
    "rejection-abc": "RejectionABC",
}
_KINDS: dict[type, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    type(None): "none",
    jax.Array: "a list such as [1, 2]",
}
_WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def make_sampler(
    name: str, settings: Sequence[str], *, tune: bool = False
) -> AbstractSampler | None:
    """The sampler of that name with settings such as `"step_size=3e-3"`; none for `auto`.

    With `tune`, its step size is found by bandit before the run starts.

    ```python
    >>> make_sampler("sgld", ["step_size=3e-3"]).step_size
    0.003

    ```
    """
    if name == "auto":
        if settings or tune:
            given = f"--set {settings[0]}" if settings else "--tune"
            raise UsageError(
                f"{given} needs a sampler to belong to, and --sampler is auto. Name "
                f"one: --sampler {' | '.join(CLASSES)}."
            )
        return None
    kind = getattr(gb, CLASSES[name])
    known = {p.name: p for p in inspect.signature(kind).parameters.values() if p.name != "self"}
    given = dict(_parsed(text, kind, known) for text in settings)
    if tune:
        given["step_size"] = _bandit(kind, known, given)
    missing = [p.name for p in known.values() if p.default is p.empty and p.name not in given]
    if missing:
        raise UsageError(
            f"{kind.__name__} needs {' and '.join(missing)}: add "
            + " ".join(f"--set {one}=VALUE" for one in missing)
            + (", or --tune" if missing == ["step_size"] else "")
            + f". Its settings are {_described(known)}."
        )
    return kind(**given)


def _bandit(kind: type, known: dict[str, inspect.Parameter], given: dict[str, Any]) -> Any:
    if "step_size" not in known:
        raise UsageError(f"--tune finds a step size, and {kind.__name__} has none: leave it out.")
    if "step_size" in given:
        raise UsageError(
            f"--tune finds the step size, and --set step_size={given['step_size']} gives one: "
            "leave one of them out."
        )
    return gb.tuning.Bandit()


def _parsed(text: str, kind: type, known: dict[str, inspect.Parameter]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name:
        raise UsageError(f"--set expects NAME=VALUE, such as step_size=3e-3; got {text!r}.")
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(
            f"{kind.__name__} has no setting {name!r}.{meant} Its settings are {_described(known)}."
        )
    return name, _value(name, value.strip(), kind, known[name].annotation)


def _value(name: str, text: str, kind: type, annotation: Any) -> Any:
    value = _read(text)
    allowed = _allowed(annotation)
    words = [x for x in allowed if not isinstance(x, type)]
    if isinstance(value, str):
        fits = value in words
    elif isinstance(value, list):
        fits = jax.Array in allowed
        value = jax.numpy.asarray(value, float) if fits else value
    elif type(value) is int and float in allowed and int not in allowed:
        fits, value = True, float(value)
    else:
        fits = type(value) in allowed
    if not fits:
        raise UsageError(f"{name} of {kind.__name__} must be {_kinds(allowed)}, got {text!r}.")
    return value


def _read(text: str) -> Any:
    """A number, a word for yes, no or none, a list of numbers, or else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(value, tuple):
        value = list(value)
    return value if isinstance(value, (int, float, list)) else text


def _allowed(annotation: Any) -> list[Any]:
    """The types and the words that an annotation allows."""
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        return [x for part in typing.get_args(annotation) for x in _allowed(part)]
    if origin is Literal:
        return list(typing.get_args(annotation))
    # no text stands for a function, nor for a tuner: --tune does
    return [annotation] if annotation in _KINDS else []


def _kinds(allowed: list[Any]) -> str:
    said = [_KINDS[x] if isinstance(x, type) else repr(x) for x in allowed]
    said = list(dict.fromkeys(said))
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


def _described(known: dict[str, inspect.Parameter]) -> str:
    def one(p: inspect.Parameter) -> str:
        default = "" if p.default is p.empty else f", {p.default} unless set"
        return f"{p.name} ({_kinds(_allowed(p.annotation))}{default})"

    return "; ".join(map(one, known.values()))
