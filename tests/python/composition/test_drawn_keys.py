"""Every key of an engine that a run of values can have is drawn, with each of its choices, or it is named here with the reason."""
import json

from checking import LOADS
from conftest import ROOT
from draw import draw

SEEDS = 1500
SECTIONS = ("weights", "ffn", "attention", "kv", "placement", "products", "graph", "lora")
OTHER_KEYS = ("prefill_chunk", "prefill_order", "prefill_span")
NOT_DRAWN = {
    "placement.transport": "of a Hexagon's worker, which runs in an emulator", "placement.spill": "the same",
    "placement.hvx_threads": "the same", "placement.stage_buffers": "the same",
    "placement.sessions": "these models fit into one; a smaller number is refused",
    "placement.options": "of plug-ins", "placement.threads": "stands for names of units, which are drawn",
    "products.isa": "of the processor at hand; tests/engine/kernels holds all of them to the same bits",
    "products.code_bits": "refuses models, and changes no run", "kv.scratch": "a folder",
    "ffn.experts.calibration": "a recording; its loads are drawn",
    "ffn.clusters.predictors": "no drawn model has any", "ffn.clusters.measure": "of predictors",
    "ffn.clusters.threshold": "units of static graphs compute every neuron, whatever it is",
    "products.decode: convert_in_halves": "cores ignore the name of a price, as they do convert, which is drawn",
    "products.prefill: convert_in_halves": "the same",
    "lora.adapters": "they are put in place with the model (checking.py)", "weights.experts.ahead": "has one rule, which is the default",
}


def leaves(schema, definitions, path=()):
    """-> {dotted key: its choices but for the default, which is had by saying nothing} of what a schema describes; lists of maps count as
    one key."""
    either = [schema, *(kind for way in ("anyOf", "oneOf", "allOf") for kind in schema.get(way, []))]
    either += [definitions[kind["$ref"].rpartition("/")[2]] for kind in either if "$ref" in kind]
    keys = {}
    for kind in either:
        for name, value in kind.get("properties", {}).items():
            if name != "include":
                keys |= leaves(value, definitions, (*path, name))
    if keys:
        return keys
    found = {str(choice) for kind in either for choice in kind.get("enum", [])}
    found = {"True", "False"} if any(kind.get("type") == "boolean" for kind in either) else found
    return {".".join(path): found - {str(schema.get("default"))}}


def drawn():
    """-> {dotted key: the values that it has somewhere}."""
    values = {}
    def take(tree, path):
        if isinstance(tree, dict):
            for name, value in tree.items():
                take(value, (*path, name))
        else:
            values.setdefault(".".join(path), set()).add(str(tree))
    for seed in range(SEEDS):
        take(draw(seed, LOADS).tree["engine"], ())
    return values


def test_every_key_of_an_engine_and_every_choice_is_drawn_or_named_with_a_reason():
    schema = json.loads((ROOT / "docs" / "schema" / "engine.json").read_text())
    asked = leaves({"properties": {name: schema["properties"][name] for name in (*SECTIONS, *OTHER_KEYS)}}, schema["definitions"])
    found = drawn()
    missing = {key for key in asked if key not in found}
    missing |= {f"{key}: {choice}" for key, choices in asked.items() if key in found for choice in choices - found[key]}
    assert missing == NOT_DRAWN.keys()
