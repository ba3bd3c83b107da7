"""The schema of an execution plan, which `vitro plan` writes and `engine.plan` names."""
from typing import Any

from .experiment import part, writer
from .writing import document, map_schema, required

_TEXT: dict[str, Any] = {"type": "string"}
_WHOLE: dict[str, Any] = {"type": "integer", "minimum": 0}
_SHARE: dict[str, Any] = {"type": "string", "pattern": r"^[0-9.]+%$"}
_TIME: dict[str, Any] = {"type": "string", "pattern": r"^[0-9.]+ (s|ms|us)$"}
_BYTES: dict[str, Any] = {"type": "string", "pattern": r"^[0-9.]+ (B|KiB|MiB|GiB|kB|MB|GB)$"}
_OPEN: dict[str, Any] = {"type": "object"}


def plan() -> dict[str, Any]:
    """The whole schema. Keys of its engine are those of an experiment; {value, why} may stand for any value there."""
    engine = part("engine", writer(reasons=True))
    rows = {"neurons": {"batch": {"anyOf": [_WHOLE, _TEXT]}, "hot": _SHARE, "cold": _SHARE, "firing": _SHARE, "fires_in_most_steps": _SHARE,
                        "why": _TEXT},
            "graphs": {"batch": _WHOLE, "unit": _TEXT, "name": _TEXT, "heads": _WHOLE,
                       "hot_neurons": {"anyOf": [_WHOLE, {"type": "array", "items": _WHOLE}]},
                       "loaded": {"enum": ["from_start", "at_change"]}, "grows": _TEXT},
            "predicted": {"batch": _WHOLE, "ffn": _TIME, "attention": _TIME, "head": _TIME, "step": _TIME,
                          "tokens_per_s": {"type": "number", "minimum": 0}}}
    said = {
        "vitro_plan": ("Version of the file's keys.", {"enum": [1]}),
        "device": ("The device that was probed. A run refuses another one.",
                   _checked({"name": _TEXT, "probed": {"enum": ["sim", "host"]}})),
        "model": ("The model that was planned for. A run refuses another one.",
                  _checked({"name": _TEXT, "format": _TEXT} | dict.fromkeys(("layers", "width", "kv_heads", "ffn", "experts",
                                                                            "predictor_rank", "gguf_bytes"), _WHOLE))),
        "profile": ("Where activations come from.", _OPEN),
        "memory": ("What has to fit: a run with less is refused.",
                   map_schema({"ffn_in_dram": _SHARE, "why": _TEXT, "fixed": _BYTES, "hot": _BYTES, "ffn": _BYTES})
                   | {"required": ["fixed", "hot", "ffn"]}),
        "neurons": ("The classification of neurons, by batch size and for prompts.", _rows(rows["neurons"])),
        "graphs": ("The static graphs of each batch size, and when a run loads them.", _rows(rows["graphs"])),
        "predicted": ("Predicted times of a layer and a step.", _rows(rows["predicted"])),
        "balance": ("The shares that were compared, by batch size.", _OPEN),
        "engine": ("Keys of engine that a run takes where the experiment has none of its own.", engine)}
    properties = {name: made | {"title": name, "description": words} for name, (words, made) in said.items()}
    return document(map_schema(properties) | required(["vitro_plan", "device", "model", "memory", "engine"]), "vitro plan",
                    "An execution plan of vitro: `vitro plan` writes it, engine.plan of an experiment names it.")


def _checked(more: dict[str, Any]) -> dict[str, Any]:
    return map_schema({"fingerprint": _TEXT} | more) | {"required": ["fingerprint"]}


def _rows(keys: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": keys, "additionalProperties": False}}
