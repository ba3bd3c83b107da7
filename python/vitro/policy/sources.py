"""The files of Python code that other code imports, as far as they are the user's own."""
import dis
import functools
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path

_PACKAGES = {"site-packages", "dist-packages"}


def imports_of(code: types.CodeType, package: str | None) -> Iterator[str]:
    """Names of all modules that code, without the code within it, may import. package: what relative names start from."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for level, names, step in zip(steps, steps[1:], steps[2:]):
        if step.opname == "IMPORT_NAME":
            try:
                name = importlib.util.resolve_name("." * level.argval + step.argval, package)
            except ImportError:  # beyond the topmost package: it can not be imported either
                continue
            yield name
            yield from (f"{name}.{part}" for part in names.argval or ())  # which may be modules of a package


def code_within(code: types.CodeType) -> Iterator[types.CodeType]:
    """It, and the code of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_within(constant)


def file_of(name: str) -> Path | None:
    """The file of a module of the user's, imported or not. None for an installed one, and where there is none."""
    if is_shipped(name):
        return None
    if (module := sys.modules.get(name)) is not None:
        path = getattr(module, "__file__", None)
    else:
        above, _, _ = name.rpartition(".")
        if above and file_of(above) is None:  # to look into a package imports it: not for one that does not count
            return None
        try:
            spec = importlib.util.find_spec(name)
        except Exception:  # what it lies in is no package, or fails: then the run says so
            return None
        path = spec.origin if spec is not None and spec.has_location else None
    return Path(path) if path and Path(path).is_file() and not is_package(path) else None


@functools.lru_cache(maxsize=256)
def imported_by(path: Path, name: str, modified_ns: int) -> tuple[str, ...]:
    """Names of the modules that a file imports anywhere in it. modified_ns: so that a changed file is read again."""
    if path.suffix != ".py":
        return ()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        whole = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return ()
    return tuple(dict.fromkeys(found for code in code_within(whole) for found in imports_of(code, package)))


def is_shipped(name: str) -> bool:
    """Python's own or vitro's."""
    return name.split(".")[0] in sys.stdlib_module_names | {"vitro"}


def is_package(path: str) -> bool:
    return not _PACKAGES.isdisjoint(Path(path).parts)


def is_installed(module: types.ModuleType | None) -> bool:
    """Python's own, a package's, or vitro's: they do not change under a study, or are told apart otherwise."""
    if module is None or module.__name__ == "__main__":
        return False
    path = getattr(module, "__file__", None)
    return is_shipped(module.__name__) or (path is not None and is_package(path))
