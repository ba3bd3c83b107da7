"""What a class is, by content: code and whatever it refers to, so that a stored point knows the policy that made it."""
import hashlib
import pickle
import sys
import sysconfig
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_SKIPPED = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__",
            "__qualname__"}


def content_of(policy: type) -> str:
    """16 hex digits. Equal where code, constants and what they refer to are equal, wherever it stands; a comment changes nothing. Of what
    can not be compared, such as an open file, no two contents are equal: then every run is a new one."""
    walk = _Walk()
    return hashlib.sha256("\0".join(walk.of(policy)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Walk:
    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # by identity: what was met before is a reference to it, so circles end
        self._kept: list[Any] = []

    def of(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
            return
        if id(value) in self._known:
            yield f"seen {self._known[id(value)]}"
            return
        self._known[id(value)] = len(self._known)
        self._kept.append(value)  # so that no other object gets its identity
        yield from self._composed(value)

    def _composed(self, value):
        if isinstance(value, types.ModuleType):
            yield from _module(value)
        elif isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, (staticmethod, classmethod)):
            yield type(value).__name__
            yield from self.of(value.__func__)
        elif isinstance(value, property):
            yield "property"
            for part in (value.fget, value.fset, value.fdel):
                yield from self.of(part)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, (tuple, list)):
            yield f"{type(value).__name__} {len(value)}"
            for item in value:
                yield from self.of(item)
        elif isinstance(value, (set, frozenset)):
            yield f"{type(value).__name__} {sorted(map(repr, value))}"
        elif isinstance(value, dict):
            yield f"dict {len(value)}"
            for key, item in value.items():
                yield from self.of(key)
                yield from self.of(item)
        elif isinstance(value, types.BuiltinFunctionType):
            yield f"builtin {value.__module__}.{value.__qualname__}"
        else:
            yield _pickled(value)

    def _class(self, value):
        if _is_installed(sys.modules.get(value.__module__)):
            yield f"class {value.__module__}.{value.__qualname__}"
            return
        yield f"class {value.__qualname__}"
        yield from self.of(value.__bases__)
        for name, member in value.__dict__.items():
            if name not in _SKIPPED and not isinstance(member, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                yield name
                yield from self.of(member)

    def _function(self, value):
        if _is_installed(sys.modules.get(value.__module__ or "")):
            yield f"function {value.__module__}.{value.__qualname__}"
            return
        yield f"function {value.__name__}"
        yield from self.of(value.__code__)
        yield from self.of(value.__defaults__)
        yield from self.of(value.__kwdefaults__)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            yield name
            yield from self.of(cell.cell_contents) if _is_filled(cell) else ("empty",)
        for name in sorted(_names(value.__code__) & value.__globals__.keys()):
            yield name
            yield from self.of(value.__globals__[name])

    def _code(self, value):
        yield f"code {value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_freevars} {value.co_flags}"
        for constant in value.co_consts:
            yield from self.of(constant)


def _names(code):
    """That a function's code or the code within it may look up in its module."""
    return set(code.co_names).union(*(_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)))


def _is_filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _module(module):
    """Of our own a file's content, of an installed one its name and version."""
    path = getattr(module, "__file__", None)
    if path and not _is_installed(module):
        yield f"module {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"
    else:
        yield f"module {module.__name__} {getattr(module, '__version__', '')}"


def _is_installed(module: types.ModuleType | None) -> bool:
    """Python's own, a package's, or vitro's: they do not change under a study, or are told apart otherwise."""
    if module is None or module.__name__ == "__main__":
        return False
    if module.__name__.split(".")[0] in sys.stdlib_module_names | {"vitro"}:
        return True
    path = getattr(module, "__file__", None)
    return path is not None and any(Path(path).is_relative_to(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))


def _pickled(value):
    try:
        data = pickle.dumps(value, protocol=4)
    except Exception:
        return f"unknown {uuid.uuid4()}"
    return f"{type(value).__qualname__} {hashlib.sha256(data).hexdigest()}"
