"""The keys of a map and what each may hold, asked of the engine's reader until nothing new turns up."""
import re

from .asking import NOBODY, Asker, Complaint, Path, at_path
from .forms import Form, Units, scalar

_MOST_MISSING = 40  # keys that a map may require


def discover(ask: Asker, path: Path, units: Units) -> Form:
    """What the key at `path` may hold."""
    said = ask.said(path, {NOBODY: 1})
    words = ask.said(path, {NOBODY: NOBODY})
    if words is not None and words.last == NOBODY and "expected a number" in words.problem:
        return Form("table", {}, choices=_names_of(said))
    if said is None:
        return Form("any")
    if said.problem.startswith("is not a list"):
        return _list(ask, path, units)
    if said.problem.startswith("is a map (expected"):
        form = scalar(said.expected, ask, path, units)
        listed = ask.said(path, [{}])
        form.listed = listed is not None and listed.problem.startswith("is a map")
        return form
    if _is_missing(said) and said.key.endswith(".value"):
        return _sourced(ask, path, units)
    return map_of(ask, path, units)


def _names_of(said: Complaint | None) -> list[str]:
    """Of a table: its entries, where the reader lists them all by name and not by example."""
    names = said.choices if said is not None else []
    return names if all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names) else []


def map_of(ask: Asker, path: Path, units: Units) -> Form:
    """The keys of the map at `path`, with those that only some choice among its keys brings."""
    settled, names, required = _settled(ask, path, units)
    if not names:
        return Form("unclear", {})
    form = Form("map", at_path(settled.base, path), required=required)
    _take(settled, path, units, form, names)
    for key, inner in list(form.keys.items()):
        for choice in inner.choices if inner.kind == "choice" else ():
            other, names, required = _settled(ask.with_value((*path, key), choice), path, units)
            _take(other, path, units, form, names)
            form.required = [name for name in form.required if name in (*required, key)] if names else form.required
    return form


def _take(ask: Asker, path: Path, units: Units, form: Form, names: list[str]) -> None:
    for name in names:
        if name not in form.keys or form.keys[name].kind == "unclear":
            form.keys[name] = discover(ask, (*path, name), units)


def _settled(ask: Asker, path: Path, units: Units) -> tuple[Asker, list[str], list[str]]:
    """-> (with all that the map requires, its keys, those that it requires). No keys where the reader does not name them."""
    given = at_path(ask.base, path)
    if not isinstance(given, dict):
        ask = ask.with_value(path, {})
    required: list[str] = []
    for _ in range(_MOST_MISSING):
        said = ask.said((*path, NOBODY), 1)
        if said is not None and said.last == NOBODY:
            return ask, said.choices, required
        said = said or _about(ask, path)
        if said is None or not _is_missing(said) or said.last in required:
            return ask, [], required
        required.append(said.last)
        at = (*path, said.last)
        ask = ask.with_value(at, discover(ask, at, units).example)
    return ask, [], required


def _about(ask: Asker, path: Path) -> Complaint | None:
    """What the reader says of the map as it is."""
    return ask.said(path, (at_path(ask.base, path) or {}) | {NOBODY: 1})


def _is_missing(said: Complaint) -> bool:
    return said.problem.startswith("is missing")


def _list(ask: Asker, path: Path, units: Units) -> Form:
    said = ask.said(path, [{NOBODY: 1}])
    item = Form("text", "text")
    if said is not None and (said.key.endswith(NOBODY) or _is_missing(said)):
        given = at_path(ask.base, (*path, 0))
        item = map_of(ask if isinstance(given, dict) else ask.with_value(path, [{}]), (*path, 0), units)
    elif said is not None and (found := re.search(r"expected a list of some of: (.*)", said.problem)):
        item = Form("choice", found[1].split(", ")[0], choices=found[1].split(", "))
    elif said is not None and said.problem.startswith("is a map (expected"):
        item = scalar(said.expected, ask, (*path, 0), units)
    return Form("list", [item.example], item=item, listed=item.kind == "text" and ask.said(path, NOBODY) is None)


def _sourced(ask: Asker, path: Path, units: Units) -> Form:
    """{value, kind, source}, or the value alone."""
    said = ask.said(path, [])
    form = scalar(said.expected if said else "", ask, path, units)
    form.sourced = True
    return form
