"""What a class is, by content: code and whatever it refers to, so that a stored point knows the policy that made it."""
import hashlib
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .sources import code_within, file_of, imported_by, imports_of, is_installed

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_SKIPPED = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__",
            "__qualname__", "_abc_impl"}


def content_of(policy: type) -> str:
    """16 hex digits. Equal where code, constants and what they refer to are equal, wherever it stands; a comment changes nothing. Of what
    can not be compared, such as an open file, no two contents are equal: then every run is a new one."""
    try:
        told = "\0".join(_Walk().of(policy))
    except RecursionError:  # a list of a thousand links, say
        told = _unknown()
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Walk:
    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # by identity: what was met before is a reference to it, so circles end
        self._kept: list[Any] = []
        self._files: set[Path] = set()

    def of(self, value: Any) -> Iterator[str]:
        if type(value) in _PLAIN:
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
            yield from self._module(value)
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
        elif type(value) in (tuple, list):
            yield f"{type(value).__name__} {len(value)}"
            for item in value:
                yield from self.of(item)
        elif type(value) in (set, frozenset):
            yield f"{type(value).__name__} {len(value)}"
            for item in sorted(value, key=repr):
                yield from self.of(item)
        elif type(value) in (dict, types.MappingProxyType):
            yield f"dict {len(value)}"
            for key, item in value.items():
                yield from self.of(key)
                yield from self.of(item)
        elif isinstance(value, types.BuiltinFunctionType):
            yield f"builtin {value.__module__}.{value.__qualname__}"
            yield from self._imported([value.__module__] if value.__module__ else ())
        else:
            yield from self._object(value)

    def _class(self, value):
        if is_installed(sys.modules.get(value.__module__)):
            yield f"class {value.__module__}.{value.__qualname__}"
            return
        yield f"class {value.__qualname__}"
        yield from self.of(value.__bases__)
        for name, member in value.__dict__.items():
            if name not in _SKIPPED and not isinstance(member, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                yield name
                yield from self.of(member)

    def _function(self, value):
        if is_installed(sys.modules.get(value.__module__ or "")):
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
            yield from self._named_within(value.__globals__[name], _names(value.__code__))
        for code in code_within(value.__code__):
            yield from self._imported(imports_of(code, value.__globals__.get("__package__")))

    def _code(self, value):
        yield f"code {value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_freevars} {value.co_flags}"
        for constant in value.co_consts:
            yield from self.of(constant)

    def _module(self, module):
        """Of our own the files, its and those that it imports; of an installed one name and version."""
        path = getattr(module, "__file__", None)
        if path and not is_installed(module):
            yield from self._file(Path(path), module.__name__)
        else:
            yield f"module {module.__name__} {getattr(module, '__version__', '')}"

    def _named_within(self, module, names):
        """Of a package's modules those that code names: `package.part.function` names them one after the other."""
        if isinstance(module, types.ModuleType) and not is_installed(module):
            for name in sorted(names):
                inner = getattr(module, name, None)
                if isinstance(inner, types.ModuleType) and inner.__name__ == f"{module.__name__}.{name}":
                    yield from self.of(inner)
                    yield from self._named_within(inner, names)

    def _imported(self, names):
        for name in names:
            if (path := file_of(name)) is not None:
                yield from self._file(path, name)

    def _file(self, path, name):
        if path not in self._files:
            self._files.add(path)
            yield f"file {hashlib.sha256(path.read_bytes()).hexdigest()}"
            yield from self._imported(imported_by(path, name, path.stat().st_mtime_ns))

    def _object(self, value):
        """By its class, and by what pickle would write of it: a name alone where that is all, as of a cached function, which wraps one."""
        try:
            told = value.__reduce_ex__(4)
        except Exception:
            yield _unknown()
            return
        yield "object"
        yield from self.of(type(value))
        if isinstance(told, str):
            yield told
            yield from self.of(getattr(value, "__wrapped__", None))
        else:
            for part in told:
                yield from self.of(list(part) if isinstance(part, Iterator) else part)


def _names(code):
    """That a function's code or the code within it may look up in its module."""
    return {name for one in code_within(code) for name in one.co_names}


def _is_filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _unknown():
    return f"unknown {uuid.uuid4()}"
