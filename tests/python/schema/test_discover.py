"""Keys asked of a reader, here a made-up one whose messages are the engine's."""
import re

from vitro.schema.asking import NOBODY, Asker, placed
from vitro.schema.discover import discover
from vitro.schema.forms import Units, schema_of

LISTS = "is not a list (expected [a, b, ...])"


def read(tree):
    """A reader of {part: {size, count, on, kind, items: [{name}], table, more}}, where `more` is there with kind: b alone."""
    part = tree["part"]
    known = ["count", "items", "kind", "on", "size", "table"] + (["more"] if part.get("kind") == "b" else [])
    if isinstance(part.get("size"), dict) or not re.fullmatch(r"[0-9]+ (KiB|MiB)", str(part.get("size", "1 KiB"))):
        return _refuse("size", part["size"], "bytes, such as 8 MiB", "is negative" if "-" in str(part["size"]) else "is not understood")
    if "count" not in part:
        return "f:1: part.count: is missing"
    if not isinstance(part["count"], int):
        return _refuse("count", part["count"], "a whole number from 1 to 8", "")
    if part.get("kind", "a") not in ("a", "b"):
        return _refuse("kind", part["kind"], "one of: a, b", "")
    for item in part.get("items", []) if isinstance(part.get("items", []), list) else [LISTS]:
        if item == LISTS:
            return f"f:1: part.items: {LISTS}"
        for key in item:
            if key != "name":
                return f"f:1: part.items.{key}: unknown key (expected one of: name)"
    for key, value in (part.get("table") or {}).items():
        if not isinstance(value, (int, float)):
            return f'f:1: part.table.{key}: "{value}" (expected a number from 0 to 1e+18)'
    return next((f"f:1: part.{key}: unknown key (expected one of: {', '.join(known)})" for key in part if key not in known), None)


def _refuse(key, value, expected, problem):
    said = "is a map" if isinstance(value, dict) else f'"{value}" {problem}'
    return f"f:1: part.{key}: {said} (expected {expected})"


def test_keys_forms_and_units_are_found():
    form = discover(Asker(read, {"part": {}}), ("part",), Units())
    assert form.required == ["count"] and set(form.keys) == {"count", "items", "kind", "more", "on", "size", "table"}
    kinds = {key: inner.kind for key, inner in form.keys.items()}
    assert kinds == {"count": "whole", "items": "list", "kind": "choice", "more": "any", "on": "any", "size": "quantity", "table": "table"}
    assert form.keys["size"].units == ["KiB", "MiB"] and list(form.keys["items"].item.keys) == ["name"]
    assert schema_of(form.keys["count"]) == {"type": "integer", "minimum": 1, "maximum": 8}
    pattern = schema_of(form.keys["size"])["pattern"]
    assert all(bool(re.search(pattern, text)) == right for text, right in
               {"8 MiB": True, "1.5e3KiB": True, "8": False, "8 MB": False, "-1 KiB": False, "KiB": False}.items())


def test_a_choice_is_open_where_plug_ins_add_to_it():
    form = discover(Asker(read, {"part": {"count": 1}}), ("part", "kind"), Units())
    assert schema_of(form) == {"enum": ["a", "b"]}
    assert schema_of(form, (frozenset({"b"}),)) == {"anyOf": [{"enum": ["a", "b"]}, {"type": "string"}]}


def test_a_message_of_another_place_says_nothing():
    ask = Asker(lambda tree: "f:1: other.key: is missing", {})
    assert ask.said(("part", NOBODY), 1) is None
    assert placed({"a": {"b": 1}}, ("a", "c", "d"), 2) == {"a": {"b": 1, "c": {"d": 2}}}
