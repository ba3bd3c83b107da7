"""The schema of a device file, and of the files that it includes."""
import functools
import json
from typing import Any

from ..base import native
from ..errors import ConfigError, RunError
from .asking import NOBODY, Asker, at_path
from .discover import discover
from .forms import Form, Units, merged
from .writing import Writer, document, map_schema, required

REQUIRED = ["name", "dram", "cpu", "ufs"]
_CLASS = "asked"  # of the only core cluster: messages name it in place of `clusters`
_BASE: dict[str, Any] = {
    "name": "asked", "dram": {"bandwidth": "50 GB/s", "capacity": "12 GB", "available": "9 GB"},
    "cpu": {"bandwidth": "40 GB/s", "clusters": [{"class": _CLASS, "cores": 1, "clock": "3 GHz", "core_bandwidth": "20 GB/s",
                                                  "cluster_bandwidth": "30 GB/s"}]},
    "ufs": {"issue_cycles": 1, "issue_fixed": "1 us", "latency_sequential": "3 us", "latency_random": "40 us", "issuer_switch": "4 us",
            "map_cache_reach": "1 MiB", "map_cache_miss": "4 us", "link_bandwidth": "2 GB/s", "write_bandwidth": "1 GB/s"}}
_BLOCKS = {"dram": "Memory.", "cpu": "Cores, in clusters with the fastest first.", "npu": "A neural processor with static graphs.",
           "ane": "A neural engine with graphs of static shape.", "gpu": "A GPU, which runs chains.", "ufs": "Flash.",
           "initiators": "SystemC modules that load the memory, by name; each with `plugin`, and with keys of its own.",
           "power": "Power and energy. Without it, energy is null.", "power.thermal": "Heat that lowers clocks.",
           "power.governor": "Clocks that follow the load of cores.",
           "name": "The device's name.", "description": "One line for `vitro list devices`.",
           "plugins": "Shared objects with device models. Paths start at this file.", "cpu.clusters": "One block for each class of cores.",
           "calibration": "What `vitro calibrate` says of its own making.", "cpu.clusters.class": "Names the cluster, such as big.",
           "cpu.clusters.cores": "How many cores the cluster has.", "cpu.wake_costs": "Measured costs of waking a thread."}
_MODULE = {"tlm", "tlm_initiator"}  # SystemC modules of others: `plugin:` names the file, which brings keys of its own
# A file that a device includes: the block whose keys it has.
PARTS = {"cluster": "cpu.clusters", "cpu": "cpu", "npu": "npu", "ufs": "ufs"}


def read(tree: dict[str, Any]) -> str | None:
    """The message of the engine's reader for a device, or None."""
    try:
        native.call("device_parameters", json.dumps(tree))
    except (ConfigError, RunError) as error:
        cluster = at_path(tree, ("cpu", "clusters", 0, "class"))
        return str(error).replace(f"cpu.{cluster}.", "cpu.clusters.", 1)
    return None


@functools.cache
def forms() -> dict[str, Form]:
    """{top-level key: what it may hold}, of all models that are built in."""
    units, ask = Units(), Asker(read, _BASE)
    said = ask.said((NOBODY,), 1)
    assert said is not None, "the reader names no keys of a device"
    found: dict[str, Form] = {}
    for name in said.choices:
        found[name] = discover(ask, (name,), units)
        for model in _models(ask, name):
            family, _, fidelity = model.partition(".")
            with_model = ask.with_value((name, "model"), family).with_value((name, "fidelity"), fidelity)
            found[name] = merged(found[name], discover(with_model, (name,), units))
    clusters = found["cpu"].keys["clusters"].item
    assert clusters is not None, "the reader takes no clusters of cores"
    clusters.keys["class"] = Form("text", _CLASS)
    return found


def _models(ask: Asker, block: str) -> list[str]:
    """Names such as "ufs.detailed" that a block may have; of another family than its own only where that may stand in for it."""
    said = ask.said((block, "model"), NOBODY)
    names = said.choices if said is not None and "there is no model" in said.problem else []
    own = {"npu": "hexagon", "cpu": "core", "ane": "ane", "gpu": "gpu"}.get(block)
    return [name for name in names if own in (None, name.partition(".")[0])]


@functools.cache
def writer() -> Writer:
    """Beside a parameter stands where its default comes from, as the models say."""
    tree: Any = dict(_BASE)
    for name in ("npu", "ane", "gpu"):
        tree[name] = forms()[name].example
    words = dict(_BLOCKS)
    for row in native.call("device_parameters", json.dumps(tree)):
        name = row["parameter"].replace(f"cpu.{_CLASS}.", "cpu.clusters.", 1)
        if row["kind"] == "default" and row["source"]:
            value = f"{row['value']:g} {row['unit']}".strip() if isinstance(row["value"], (int, float)) else row["value"]
            words[name] = f"Default: {value} ({row['source']})."
    return Writer(words)


def block(name: str) -> dict[str, Any]:
    """The schema of a top-level key. A model that is not built in has keys of its own."""
    form, write = forms()[name], writer()
    made = write.of(form, name)
    if "model" in form.keys:
        own = form.keys["model"].choices
        families = sorted({model.partition(".")[0] for model in own})
        made["properties"]["model"] = {"anyOf": [{"enum": families}, {"type": "string"}], "title": ".".join((name, "model")),
                                       "description": f"The model of this block ({', '.join(own)}), or one of a plug-in."}
        made.pop("additionalProperties")
        closed = [family for family in families if family not in _MODULE]
        made |= {"if": {"properties": {"model": {"enum": closed}}}, "then": {"propertyNames": {"enum": sorted(made["properties"])}}}
    return made


def _initiators():
    agent = map_schema({"plugin": {"type": "string"}}) | {"additionalProperties": True, "required": ["plugin"]}
    return {"type": "object", "additionalProperties": {"anyOf": [agent, {"type": "null"}]}, "title": "initiators",
            "description": _BLOCKS["initiators"]}


def device() -> dict[str, Any]:
    """The whole schema. A block with nothing behind it takes an included one away."""
    properties: dict[str, Any] = {}
    for name in forms():
        made = block(name) if name != "initiators" else _initiators()
        about = {key: made.pop(key) for key in ("title", "description") if key in made}
        properties[name] = {"anyOf": [made, {"type": "null"}]} | about if made.get("type") == "object" else made | about
    properties["name"] |= {"type": "string"}
    properties["description"] |= {"type": "string"}
    properties["plugins"] = {"type": "array", "items": {"type": "string"}} | writer().said("plugins")
    return document(map_schema(properties) | required(REQUIRED), "vitro device",
                    "A device of vitro: a phone's blocks with their parameters, each with where its number comes from.")


def part_file(name: str) -> dict[str, Any]:
    """The schema of a file that a device includes: "cluster" (of cores), "cpu", "npu" or "ufs"."""
    made = block(PARTS[name].partition(".")[0])
    if name == "cluster":
        made = {key: value for key, value in made["properties"]["clusters"]["items"].items() if key not in ("if", "then")}
    return document(made, f"vitro {name}", "A part of a device, which `include:` of a device file names.")
