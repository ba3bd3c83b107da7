"""The schema of an experiment, and of its parts as files: engine, model and workload."""
import functools
import json
from typing import Any

from ..base import checkout, native
from ..base.engine_keys import MOVED, RENAMED
from ..base.trees import flatten
from ..errors import ConfigError, RunError
from ..running.expect import KEYS as EXPECTATION
from .asking import NOBODY, Asker, Path, placed
from .discover import discover
from .forms import Form, Units, merged
from .words import described
from .writing import Writer, document, file_or, map_schema, required, with_reason

REQUIRED = ["experiment", "model", "workload"]
# Registries that plug-ins, and classes of Python, add to: a name that is not among them is no mistake.
_REGISTRIES = ("weights", "ffns", "placements", "evictions", "kv_keeps", "drifts", "look_aheads", "expert_places")
_BASE: dict[str, Any] = {"experiment": "asked", "machine": "host", "model": {"gguf": "model.gguf"}, "engine": {},
                         "workload": {"prompt": "text"}}
_SHAPE: dict[str, Any] = {"format": "q4_0", "shape": {"family": "mixtral", "layers": 1, "width": 64, "heads": 2, "ffn": 64, "vocab": 64,
                                                      "context": 64, "experts": 2, "experts_used": 1}}
# Where other keys decide what a key may hold: asked with these in place, too.
_CONTEXTS: tuple[tuple[Path, Any], ...] = (
    (("engine", "placement", "units"), ["hexagon"]),
    (("engine", "lora", "adapters"), [{"name": "one", "rank": 1, "matrices": ["attn_q"]}]),
    (("engine", "lora", "adapters"), [{"name": "one", "file": "one.gguf"}]),
    (("faults",), {"draw": 1}),
    (("workload",), {"products": {"shapes": [{"columns": 64, "depth": 64}]}}),
    (("workload",), {"softmax": {"columns": 64}}),
    (("workload", "scaling"), {"method": "self_consistency", "samples": 2, "answer": "(a)"}),
)
_SHARE: dict[str, Any] = {"type": "string", "pattern": r"^ *[0-9.]+ *% *$"}
_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
# What the reader takes as it is or describes in words of its own.
_BY_HAND: dict[str, dict[str, Any]] = {
    "description": {"type": "string"}, "engine.description": {"type": "string"}, "engine.name": {"type": "string"},
    "engine.plan": {"type": "string"}, "workload.adapter": _TEXTS, "workload.requests.adapter": _TEXTS,
    "engine.placement.options": {"type": "object"}, "engine.placement.splits.why": {"type": "string"},
    "engine.placement.graphs": {"anyOf": [{"enum": ["ahead", "needed"]}, {"type": "array", "items": {
        "type": "object", "additionalProperties": False, "required": ["batch"],
        "properties": {"batch": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "Sequences of the decode step."},
                       "name": {"type": "string", "description": "For traces. Default: decode_b and the batch."},
                       "loaded": {"enum": ["from_start", "at_change"],
                                  "description": "Before the first token, or as soon as the next step may have this batch."}}}}]},
    "engine.placement.splits.hot_by_layer": {"type": "array", "minItems": 1, "items": {"anyOf": [
        _SHARE, {"type": "array", "minItems": 1, "items": _SHARE}]}},
    "workload.scaling.answer": {"type": "string"},
    "engine.ffn.experts.cold": {"anyOf": [_SHARE, {"enum": ["by_time"]}]},
    "engine.ffn.experts.loads": {"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}}},
    "metrics": {"type": "array", "items": {"type": "string"}},
    "schema": {"enum": ["vitro.experiment/1"]},
    "model.description": {"type": "string"}, "model.provenance": {"type": "object"},
}


def composed(tree: dict[str, Any]) -> str | None:
    """The message of the engine's reader for an experiment, or None."""
    try:
        native.call("compose", json.dumps(tree), "experiment", False, [], "")
    except ConfigError as error:
        return str(error)
    return None


def loaded(tree: dict[str, Any]) -> str | None:
    """The same of its model: it is loaded for a run that can not begin, since its unit does not exist."""
    try:
        answer = native.call("compose", json.dumps(placed(tree, ("engine", "placement", "units"), [NOBODY])), "experiment", False, [], "")
        native.call("run", answer["tree"], None)
    except (ConfigError, RunError) as error:
        return str(error)
    return None


@functools.cache
def forms() -> dict[str, Form]:
    """{top-level key: what it may hold}."""
    units = Units()
    ask = Asker(composed, _BASE)
    said = ask.said((NOBODY,), 1)
    assert said is not None, "the reader names no keys of an experiment"
    found = {key: discover(ask, (key,), units) for key in said.choices}
    for path, value in _CONTEXTS:
        top = str(path[0])
        found[top] = merged(found[top], discover(ask.with_value(path, value), (top,), units))
    drawn = Asker(loaded, _BASE | {"model": _SHAPE, "engine": {"function": "draw"}, "workload": {"prompt_tokens": 1}})
    found["model"] = merged(found["model"], discover(drawn, ("model",), units))
    found["model"].keys["profile"] = found["engine"].keys["profile"]
    return found


@functools.cache
def writer(reasons: bool = False) -> Writer:
    """What is said beside keys: meanings from the documents, defaults from an experiment that states none."""
    answer = native.call("compose", json.dumps(_BASE), "experiment", False, [], "")
    given = flatten(_BASE)
    defaults = {key: value for key, value in flatten(answer["resolved"]).items() if key not in given}
    opened = tuple(frozenset(row["name"] for row in native.call("list", kind, "")) for kind in _REGISTRIES)
    return Writer(described(checkout.root()), defaults, opened, reasons)


def part(name: str, write: Writer) -> dict[str, Any]:
    """The schema of a top-level key's map."""
    made = write.of(forms()[name], name)
    _by_hand(made, name, write)
    if name == "engine":
        _earlier_names(made, write)
    return made


def experiment() -> dict[str, Any]:
    """The whole schema."""
    write = writer()
    properties = {name: part(name, write) for name in forms()}
    for name in ("model", "engine", "workload", "faults"):
        properties[name] = file_or(properties[name])
    properties["device"] = {"type": ["string", "object"]} | write.said("device")
    properties["plugins"] = {"type": "array", "items": {"type": "string"}, "title": "plugins",
                             "description": "Shared objects with device models, beside those that the device file names."}
    bound = {"type": ["number", "string"]}
    entry = {"type": "object", "required": ["metric"], "additionalProperties": False,
             "properties": {key: {"type": "string"} if key == "metric" else bound for key in EXPECTATION}}
    properties["expect"] = {"type": "object", "additionalProperties": entry} | write.said("expect")
    properties["sweep"] = {"type": ["object", "array"]} | write.said("sweep")
    return document(map_schema(properties) | required(REQUIRED), "vitro experiment",
                    "An experiment of vitro: which model runs which workload under which engine on which machine.")


def part_file(name: str) -> dict[str, Any]:
    """The schema of a file that holds one part: "engine", "model" or "workload"."""
    return document(part(name, writer()), f"vitro {name}", f"A file that `{name}:` of an experiment names.")


def _by_hand(made: dict[str, Any], name: str, write: Writer) -> None:
    """Puts what is written here in place, at any depth."""
    for key, inner in made.get("properties", {}).items():
        dotted = f"{name}.{key}"
        if dotted in _BY_HAND:
            made["properties"][key] = _said_by_hand(dotted, write)
        else:
            _by_hand(inner, dotted, write)
    for inner in (made.get("items"), *made.get("anyOf", ())):
        if isinstance(inner, dict):
            _by_hand(inner, name, write)
    if name in _BY_HAND:
        made.clear()
        made.update(_said_by_hand(name, write))


def _said_by_hand(name: str, write: Writer) -> dict[str, Any]:
    form = _BY_HAND[name]
    return ({"anyOf": [form, with_reason(form)]} if write.reasons else form) | write.said(name)


def _earlier_names(engine: dict[str, Any], write: Writer) -> None:
    """Keys of earlier versions hold what their present names hold."""
    own = engine["properties"]

    def present(name: str) -> dict[str, Any]:
        at = engine
        for step in name.split("."):
            at = at["properties"][step]
        return at | {"description": f"Also engine.{name}. {at.get('description', '')}".strip()}

    for old, new in MOVED.items():
        own.setdefault(old, map_schema(dict(present(new)["properties"])) | {"title": f"engine.{old}", "description": f"Also engine.{new}."})
    for old, new in RENAMED.items():
        at, _, key = old.rpartition(".")
        (own[at]["properties"] if at else own)[key] = present(new) | {"title": f"engine.{old}"}
    own["attention"] = {"anyOf": [own["attention"]["properties"]["kernel"], own["attention"]]} | write.said("engine.attention")
    own["kernels"] = {"type": "string"} | write.said("engine.kernels")
