"""What a key may hold, as the engine's reader describes it, and that as JSON Schema (draft 7)."""
import re
from dataclasses import dataclass, field, replace
from typing import Any

from .asking import NOBODY, Asker, Path

ON_OFF = ["on", "off", "yes", "no"]
_EXAMPLE = 4096  # of a number, if it may be that: other keys' bounds may depend on it
_NUMBER = r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
# Signs that units are made of; which of their products are units the reader says.
_PREFIXES = ("", "p", "n", "u", "m", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")
_UNITS = ("s", "B", "B/s", "Hz", "W", "J", "J/B", "J/bit", "degC", "K", "%")


@dataclass
class Form:
    """kind: "map", "list", "table" (of numbers, at any depth), "any", "text", "choice", "whole", "number", "switch", "quantity", or
    "unclear", where the reader names neither keys nor what it expects.

    sourced: {value, kind, source} stands for it. listed: a list of such values, too; of a list: one item without a list.
    example: a value that is right."""

    kind: str
    example: Any = None
    sourced: bool = False
    listed: bool = False
    choices: list[str] = field(default_factory=list)         # of "choice"; of another kind: words that it may hold instead
    low: float | None = None
    high: float | None = None
    what: str = ""                                           # of a quantity: "bytes, such as 8 MiB"
    units: list[str] = field(default_factory=list)
    signed: bool = False
    keys: dict[str, "Form"] = field(default_factory=dict)    # of a map
    required: list[str] = field(default_factory=list)        # of its keys, whatever else it has
    item: "Form | None" = None                               # of a list


class Units:
    """The units of each kind of quantity. Asked once for each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[str], bool]] = {}

    def of(self, ask: Asker, path: Path, what: str) -> tuple[list[str], bool]:
        """-> (units, whether it may be negative) of the quantity that is described as `what` and is found at `path`."""
        if what not in self._known:
            made = [prefix + unit for unit in _UNITS for prefix in _PREFIXES]
            units = [unit for unit in made if not self._refused(ask, path, f"1 {unit}", ("not understood", "has no unit"))]
            self._known[what] = units, bool(units) and not self._refused(ask, path, f"-1 {units[0]}", ("negative",))
        return self._known[what]

    @staticmethod
    def _refused(ask: Asker, path: Path, text: str, problems: tuple[str, ...]) -> bool:
        said = ask.said(path, text)
        return said is not None and any(problem in said.problem for problem in problems)


def scalar(expected: str, ask: Asker, path: Path, units: Units) -> Form:
    """The form that the reader described as `expected`: "a whole number from 1 to 4096"."""
    if found := re.fullmatch(r"a (whole )?number from (\S+) to (\S+)", expected):
        low, high = float(found[2]), float(found[3])
        example = min(high, max(low, _EXAMPLE))
        return Form("whole" if found[1] else "number", int(example) if found[1] else example, low=low, high=high,
                    choices=_words(ask, path))
    if expected == "a bare number":
        return Form("number", 1)
    if expected == "true or false":
        return Form("switch", True)
    if found := re.fullmatch(r"one of: (.*)", expected):
        return Form("choice", found[1].split(", ")[0], choices=found[1].split(", "))
    if found := re.fullmatch(r"(.*), such as (.*)", expected):
        known, signed = units.of(ask, path, expected)
        return Form("quantity", found[2], what=expected, units=known, signed=signed)
    said = ask.said(path, NOBODY)
    if said is not None and (said.choices or "is not understood" in said.problem):
        return scalar(said.expected, ask, path, units)
    return Form("text", "text")


def _words(ask: Asker, path: Path) -> list[str]:
    """Of a number: what may stand in its place."""
    said = ask.said(path, NOBODY)
    return said.choices if said is not None else []


def schema_of(form: Form, opened: tuple[frozenset[str], ...] = ()) -> dict[str, Any]:
    """JSON Schema of a form without keys. opened: registries that plug-ins may add to; a choice that has one of them is no closed one."""
    made = _plain(form, opened)
    if form.choices and form.kind not in ("choice", "table"):
        made = {"anyOf": [made, {"enum": form.choices}]}
    if form.listed:
        made = {"anyOf": [made, {"type": "array", "items": made}]}
    if form.sourced:
        made = {"anyOf": [made, {"allOf": [{"$ref": "#/definitions/sourced"}, {"properties": {"value": made}}]}]}
    return made


def _plain(form: Form, opened: tuple[frozenset[str], ...]) -> dict[str, Any]:
    if form.kind == "quantity":
        number = _NUMBER if form.signed else _NUMBER.removeprefix("-?")
        return {"type": "string", "pattern": f"^ *{number} *({'|'.join(form.units)}) *$", "examples": [form.example]}
    if form.kind == "switch":
        return {"anyOf": [{"type": "boolean"}, {"enum": ON_OFF}]}
    if form.kind in ("whole", "number"):
        bounds = {name: int(value) if value == int(value) else value
                  for name, value in (("minimum", form.low), ("maximum", form.high)) if value is not None}
        return {"type": "integer" if form.kind == "whole" else "number", **bounds}
    if form.kind == "choice":
        choices = [int(word) if word.isdigit() else word for word in form.choices]
        more = any(names <= set(form.choices) for names in opened)
        return {"anyOf": [{"enum": choices}, {"type": "string"}]} if more else {"enum": choices}
    if form.kind == "text":
        return {"type": ["string", "number"]}
    if form.kind == "table":
        names = {"propertyNames": {"enum": [*form.choices, "kind", "source", "note", "include"]}} if form.choices else {}
        return {"allOf": [{"$ref": "#/definitions/table"}, names]} if names else {"allOf": [{"$ref": "#/definitions/table"}]}
    return {}


def merged(one: Form, other: Form) -> Form:
    """What is known of one key from two ways to ask: the keys of both."""
    if one.kind == "unclear" or (one.kind == "any" and other.kind == "map"):
        return other
    if one.kind != other.kind:
        return one
    keys = {name: merged(form, other.keys[name]) if name in other.keys else form for name, form in one.keys.items()}
    keys |= {name: form for name, form in other.keys.items() if name not in keys}
    item = merged(one.item, other.item) if one.item and other.item else one.item or other.item
    choices = [*one.choices, *(choice for choice in other.choices if choice not in one.choices)]
    return replace(one, keys=keys, item=item, choices=choices, required=[key for key in one.required if key in other.required])
