"""A hash of what a target computes: settings by value, functions by source with all they call.

The same in every process, so that a stored run can tell whether its simulator has changed since.
Comments and layout do not count, nor does what computes the draws without changing them.
"""

import ast
import dis
import functools
import hashlib
import inspect
import operator
import sys
import sysconfig
import textwrap
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpyro.distributions import Distribution
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import Transform

from .._tree import is_key

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# what computes draws without changing them; `_inv`: NumPyro's memory of a transform's inverse
_IGNORED_FIELDS = {"executor", "runtime", "timeout", "retries", "max_failures", "_inv"}
_CHANGING = {"append", "add", "clear", "extend", "insert", "pop", "setdefault", "update"}
_OURS = str(Path(__file__).parents[1])


def fingerprint(value: Any) -> str:
    """Sixteen hexadecimal digits that change with whatever the value computes.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = hashlib.sha256()
    _Feed(digest.update).feed(value)
    return digest.hexdigest()[:16]


class _Feed:
    """Walks through a value and tells its parts, each thing once."""

    def __init__(self, update: Any):
        self._update = update
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # alive, so that no two things share an address

    def say(self, *words: str) -> None:
        self._update(("\0".join(words) + "\1").encode())

    def feed(self, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self.say(type(value).__name__, repr(value))
        elif isinstance(value, (np.ndarray, np.generic, jax.Array)):
            self._array(value)
        elif id(value) in self._seen:
            self.say("again", str(self._seen[id(value)]))
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            self._compound(value)

    def _array(self, value: Any) -> None:
        x = np.asarray(jax.random.key_data(value) if is_key(value) else value)
        self.say("array", x.dtype.str, str(x.shape))
        self._update(np.ascontiguousarray(x).tobytes())

    def _compound(self, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            self._items(type(value).__name__, value)
        elif isinstance(value, (set, frozenset)):
            self._items("set", sorted(value, key=repr))
        elif isinstance(value, Mapping):
            self._items("mapping", [x for k in sorted(value, key=repr) for x in (k, value[k])])
        elif isinstance(value, Distribution):
            self.say(_name(type(value)))
            self.feed(_settings(value))
        elif isinstance(value, functools.partial):
            self._items("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self._items("method", (value.__func__, value.__self__))
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, (types.FunctionType, type)):
            self._source(value)
        elif _is_torch(value, "Tensor"):
            self._array(value.detach().cpu().numpy())
        elif _is_torch(value, "nn.Module"):
            self.say(_name(type(value)))
            self.feed(dict(value.state_dict()))
        elif callable(getattr(value, "__wrapped__", None)):  # jax.jit and its like
            self._items("wrapped", (value.__wrapped__,))
        else:
            self._instance(value)

    def _items(self, kind: str, values: Any) -> None:
        values = list(values)
        self.say(kind, str(len(values)))
        for value in values:
            self.feed(value)

    def _instance(self, value: Any) -> None:
        kind = type(value)
        if _is_users(kind):
            self.feed(kind)
        else:
            self.say("instance", _name(kind))
        # what else a library's object holds is its own affair: caches, handles, addresses
        known = isinstance(value, (eqx.Module, Constraint, Transform)) or is_dataclass(value)
        if known or _is_users(kind):
            fields = getattr(value, "__dict__", {})
            self.feed({k: v for k, v in fields.items() if k not in _IGNORED_FIELDS})

    def _module(self, module: types.ModuleType) -> None:
        self.say("module", module.__name__)
        if _is_users(module):
            self.say(_text(module))

    def _source(self, thing: Any) -> None:
        if not _is_users(thing):
            ours = _name(thing).startswith("genbayes.")
            self.say("library", _name(thing), _text(thing) if ours else "")
            return
        self.say("source", _text(thing))
        if isinstance(thing, type):
            members = [m for m in vars(thing).values() if isinstance(m, types.FunctionType)]
            self._items("bases", thing.__bases__)
            for member in members:
                self._reaches(member)
        else:
            self._reaches(thing)

    def _reaches(self, fn: types.FunctionType) -> None:
        """What a function's result depends on beside its source."""
        self._items("defaults", (fn.__defaults__, fn.__kwdefaults__))
        memory = _written_to(_text(fn))  # a cache or a counter, which is no setting
        names = _global_names(fn.__code__) - memory
        self.feed({name: fn.__globals__[name] for name in names if name in fn.__globals__})
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
            try:
                self.feed(None if name in memory else cell.cell_contents)
            except ValueError:  # a name that is not bound yet
                self.say("empty cell")


def _settings(distribution: Distribution) -> dict[str, Any]:
    """What a distribution was made with, in an order that does not depend on the process."""
    kind = type(distribution)
    names = {*kind.gather_pytree_data_fields(), *kind.gather_pytree_aux_fields()}
    return {name: vars(distribution).get(name) for name in names - {"_validate_args"}}


def _global_names(code: types.CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return names.union(*map(_global_names, inner))


def _written_to(text: str) -> set[str]:
    """The names that some code assigns into, or calls a changing method of."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return set()
    targets = [t for n in nodes if isinstance(n, ast.Assign) for t in n.targets]
    targets += [n.target for n in nodes if isinstance(n, (ast.AugAssign, ast.AnnAssign))]
    inside = [t.value for t in targets if isinstance(t, (ast.Subscript, ast.Attribute))]
    called = [n.func for n in nodes if isinstance(n, ast.Call)]
    inside += [f.value for f in called if isinstance(f, ast.Attribute) and f.attr in _CHANGING]
    declared = [n.names for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal))]
    return {x.id for x in inside if isinstance(x, ast.Name)}.union(*declared)


def _is_torch(value: Any, kind: str) -> bool:
    """Whether it is of that class of PyTorch, which is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, operator.attrgetter(kind)(torch))


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', '?')}"


def _is_users(thing: Any) -> bool:
    """Whether it was written by the user, and not installed with Python or a package."""
    module = thing if isinstance(thing, types.ModuleType) else sys.modules.get(thing.__module__)
    path = getattr(module, "__file__", None)
    if path is None:  # typed into a session, or built in
        return getattr(module, "__name__", "?") not in sys.builtin_module_names
    installed = {"site-packages", "dist-packages"} & set(Path(path).parts)
    return not installed and not path.startswith((_OURS, _standard_library()))


@functools.cache
def _standard_library() -> str:
    return sysconfig.get_paths()["stdlib"]


def _text(thing: Any) -> str:
    """The source without comments and layout; bytecode where there is no source."""
    code: types.CodeType | None = getattr(thing, "__code__", None)
    compiled = "?" if code is None else _compiled(code)
    try:
        text = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        return compiled
    if code is not None and code.co_name == "<lambda>":
        return f"{text}# {compiled}"  # one line may hold several
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:
        return text


def _compiled(code: types.CodeType) -> str:
    consts = (_compiled(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts)
    return " ".join((code.co_code.hex(), repr(code.co_names), *consts))
