"""Forms as JSON Schema, each key with its name, meaning and default."""
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .forms import Form, schema_of

DRAFT = "http://json-schema.org/draft-07/schema#"
_LONG = 8  # a list of words with more of them is written once
KINDS = ("spec", "measured", "derived", "scaled", "fitted", "assumed")  # of a number's provenance (docs/reference/devices.md)

DEFINITIONS: dict[str, Any] = {
    "include": {"title": "include", "description": "A file, or a list of files, whose keys come before those of this map. Paths start "
                "at this file, or are such as vitro:devices/oneplus12.",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "kind": {"enum": list(KINDS), "title": "kind", "description": "Where the number comes from: spec (a data sheet), measured (on this "
             "device), derived (from other numbers), scaled (another device's, times a factor), fitted (to a named microbenchmark), or "
             "assumed."},
    "sourced": {"type": "object", "required": ["value", "kind", "source"], "additionalProperties": False,
                "properties": {"value": {}, "kind": {"$ref": "#/definitions/kind"}, "source": {"type": ["string", "number"]}, "note": {}}},
    "numbers": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "object", "additionalProperties": {"$ref": "#/definitions/numbers"}}]},
    "table": {"type": "object", "additionalProperties": {"$ref": "#/definitions/numbers"},
              "properties": {"kind": {"$ref": "#/definitions/kind"}, "source": {"type": ["string", "number"]}, "note": {},
                             "include": {"$ref": "#/definitions/include"}}},
}


@dataclass(frozen=True)
class Writer:
    """words: {dotted key: its meaning}. defaults: {dotted key: value}. opened: registries that plug-ins add to.
    reasons: {value, why} may stand for any value, as in a plan."""

    words: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    opened: tuple[frozenset[str], ...] = ()
    reasons: bool = False

    def of(self, form: Form, name: str) -> dict[str, Any]:
        """The schema of the key with that dotted name."""
        made = self._bare(form, name)
        if self.reasons and form.kind != "map":
            made = {"anyOf": [made, with_reason(made)]}
        return made | self.said(name)

    def said(self, name: str) -> dict[str, Any]:
        """Title, meaning and default of a key, as far as they are known. A key without words of its own has those of its section."""
        known = name
        while known and known not in self.words:
            known = known.rpartition(".")[0]
        words = self.words.get(known, "") if known == name else f"Of {known}: {self.words[known]}" if known else ""
        said: dict[str, Any] = {"title": name} | ({"description": words} if words else {})
        default = self.defaults.get(name)
        return said | ({"default": default} if isinstance(default, (str, int, float)) else {})

    def properties(self, form: Form, name: str) -> dict[str, Any]:
        """Of the keys of a map."""
        return {key: self.of(inner, f"{name}.{key}" if name else key) for key, inner in form.keys.items()}

    def _bare(self, form: Form, name: str) -> dict[str, Any]:
        if form.kind == "map":
            return map_schema(self.properties(form, name))
        if form.kind == "list" and form.item is not None:
            item = self._bare(form.item, name)
            if form.item.required:
                item |= required(form.item.required)
            made = {"type": "array", "items": item}
            return {"anyOf": [made, item]} if form.listed else made
        return schema_of(form, self.opened)


def map_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """A map of those keys and no others; any map of a file may include others."""
    return {"type": "object", "properties": properties | {"include": {"$ref": "#/definitions/include"}}, "additionalProperties": False}


def required(keys: list[str]) -> dict[str, Any]:
    """What a map needs that includes nothing: an included file may have any of its keys."""
    return {"if": {"not": {"required": ["include"]}}, "then": {"required": keys}}


def with_reason(made: dict[str, Any]) -> dict[str, Any]:
    """{value, why} in place of a value."""
    return {"type": "object", "required": ["value"], "additionalProperties": False,
            "properties": {"value": made, "why": {"type": "string"}}}


def file_or(made: dict[str, Any]) -> dict[str, Any]:
    """A part of an experiment: a path, or the map itself."""
    about = {key: made[key] for key in ("title", "description") if key in made}
    return {"anyOf": [{"type": "string"}, {key: value for key, value in made.items() if key not in about}]} | about


def document(made: dict[str, Any], title: str, about: str) -> dict[str, Any]:
    """A whole schema, with the definitions that it uses."""
    whole = {"$schema": DRAFT, "title": title, "description": about} | {key: value for key, value in made.items()
                                                                        if key not in ("title", "description")}
    whole = json.loads(json.dumps(whole))  # nothing in it stands in two places
    used = _named_words(whole)
    while more := {name for name in _references([whole, used]) if name not in used}:
        used |= {name: copy.deepcopy(DEFINITIONS[name]) for name in sorted(more)}
    return whole | {"definitions": dict(sorted(used.items()))}


def _named_words(tree: Any) -> dict[str, Any]:
    """Long lists of words that stand in more than one place become definitions: {name: list}."""
    places: dict[str, list[dict[str, Any]]] = {}

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("enum"), list) and len(node["enum"]) > _LONG:
                places.setdefault(json.dumps(node["enum"]), []).append(node)
            node = list(node.values())
        for inner in node if isinstance(node, list) else ():
            visit(inner)

    visit(tree)
    named: dict[str, Any] = {}
    for words, nodes in places.items():
        if len(nodes) > 1:
            name = f"words{len(named) + 1}"
            named[name] = {"enum": json.loads(words)}
            for node in nodes:
                del node["enum"]
                node["allOf"] = [{"$ref": f"#/definitions/{name}"}]
    return named


def _references(tree: Any) -> set[str]:
    if isinstance(tree, dict):
        own = {tree["$ref"].rpartition("/")[2]} if isinstance(tree.get("$ref"), str) else set()
        return own.union(*map(_references, tree.values()))
    return set().union(*map(_references, tree)) if isinstance(tree, list) else set()
