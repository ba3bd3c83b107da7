"""A plan as a tree, and the tree as YAML that people read: each number with its reason beside it."""
import json

from .settings import CLIFF, ENGINE, STEPS_OF_A_BATCH

MIB = 2 ** 20


def as_tree(planner, device_tree, machine, profile):
    """-> the plan. `engine` is what a run takes: {value, why} stands for the value."""
    facts, model = planner.facts, planner.model
    hot_bytes = max(_stays(model, split) for split in planner.splits) / model["ffn"] * planner.memory.ffn
    return {
        "vitro_plan": 1,
        "device": {"name": device_tree.get("name", ""), "fingerprint": facts["device"]["fingerprint"], "probed": machine},
        "model": {"name": model["name"], "fingerprint": facts["model"]["fingerprint"], "format": facts["formats"]["ffn_bundle"],
                  **{key: model[key] for key in ("layers", "width", "kv_heads", "ffn", "experts", "predictor_rank") if model[key]},
                  **({"gguf_bytes": model["gguf_bytes"]} if "gguf_bytes" in model else {})},
        "profile": profile,
        "memory": {"ffn_in_dram": _share(planner.memory.share), "why": planner.memory.why, "fixed": _mib(planner.memory.fixed),
                   "hot": _mib(hot_bytes), "ffn": _mib(planner.memory.ffn)},
        "neurons": [_class_row(planner, split) for split in planner.splits] + [_prefill_row(planner)],
        "graphs": _graphs(planner),
        "predicted": [_predicted_row(planner, split) for split in planner.splits],
        "balance": {split["batch"]: _balance_rows(planner, split) for split in planner.splits},
        "engine": _engine(planner),
    }


def _engine(planner):
    why, settings = planner.why, planner.settings
    engine = {
        "policy": ENGINE["policy"],
        "layout": _with(planner.layout, why["layout"]),
        "activations": _with(planner.numerics, f"{planner.facts['formats']['ffn_bundle']} weights"),
        "units": _with(planner.cores, why["units"]),
        "prefill_chunk": _with(planner.chunk, why["prefill_chunk"]),
        "clusters": {
            "pipeline": "cluster",
            "io_core": _with(planner.io_core, why["io_core"]),
            "io_depth": _with(planner.io_depth, why["io_depth"]),
            "neurons": _with(planner.cluster, why["neurons"]),
            "staging": _with(f"{planner.staging // MIB} MiB", why["staging"]),
            "dense_rows": _with(planner.dense_rows, why["dense_rows"]),
        },
    }
    if not settings["accelerator"]:
        return engine
    cores, fast = planner.prefill[tuple(planner.cores)], planner.prefill[(settings["accelerator"],)]
    engine["hybrid"] = {
        "unit": settings["accelerator"],
        **({} if planner.own == "same" else {"activations": _with(planner.own, f"in which {settings['accelerator']} was probed")}),
        "cluster": _with(planner.hot_cluster, why["cluster"]),
        "prefill": _with(fast <= cores, f"a layer for 64 rows: {_ms(fast)} on {settings['accelerator']}, {_ms(cores)} on the cores"),
        "splits": [_split(planner, split) for split in planner.splits],
    }
    return engine


def _mean_hot(model, split):
    """Hot neurons of an FFN, over all FFNs: one that a recording never used has none."""
    by_ffn = split.get("by_ffn")
    if not by_ffn:
        return split["hot"]
    return sum(by_ffn.values()) / (model["layers"] * (max(1, model["experts"]) if any(expert >= 0 for _, expert in by_ffn) else 1))


def _stays(model, split):
    """Hot neurons of an FFN that take room: what is streamed shares one buffer."""
    streamed = split.get("streamed", 0)
    return _mean_hot(model, split) - streamed + streamed / model["layers"]


def _streamed(planner, split):
    if not split.get("streamed"):
        return {}
    own, name = planner.model["ffn"], planner.settings["accelerator"]
    return {"streamed": _with(_share(split["streamed"] / own, up=True),
                              f"at most what comes from flash at {planner.balance.sequential * 1e-9:.2f} GB/s within attention; without "
                              f"any a layer takes {_ms(split['without'].total)}, {name} {_ms(split['without'].accelerator)}")}


def _by_layer(planner, split):
    """-> the shares of each layer, and of each of its experts where those differ."""
    model, by_ffn = planner.model, split["by_ffn"]
    one, chosen = split["gain"]

    def share(layer, expert):
        return _share(by_ffn.get((layer, expert), 0) / model["ffn"], up=True)

    experts = range(model["experts"]) if any(expert >= 0 for _, expert in by_ffn) else ()
    value = [[share(layer, expert) for expert in experts] if experts else share(layer, -1) for layer in range(model["layers"])]
    apart, mean = "experts" if experts else "layers", _share(_mean_hot(model, split) / model["ffn"])
    return {"hot_by_layer": _with(value, f"{apart} differ: one takes {_ms(chosen)} in the mean, and {_ms(one)} with one share for all; "
                                  f"{mean} are hot in all")}


def _split(planner, split):
    times, attention, head = split["times"], split["attention_times"], split["head_times"]
    own, name = planner.model["ffn"], planner.settings["accelerator"]
    least, its = min(planner.table[split["batch"]], key=lambda row: row[1].total)
    bound, stays = "", split["stays"]
    if split.get("streamed"):
        bound = ""          # why is said with `streamed`
    elif least > stays == split["wanted"] and planner.memory.share < 1:
        bound = f"; within {CLIFF:.0%} of the {_ms(its.total)} at {_share(least / own)}, and further from what DRAM holds"
    elif stays != split["wanted"]:
        bound = (f"; {_share(split['wanted'] / own)} would balance better, but what it adds to batch {split['batch'] - 1} does not fit "
                 f"behind attention and would not pay within {STEPS_OF_A_BATCH} steps")
    elif stays + planner.hot_cluster > planner.memory.share * own:
        bound = "; DRAM holds no more"
    if "bound" in split:
        bound += f"; flash brings {_share(split['bound'] / own)} of an FFN within {_ms(attention.total)} of attention"
    return {"batch": split["batch"],
            "hot": _with(_share(split["hot"] / own, up=True), f"{name} {_ms(times.accelerator)}, cores {_ms(times.cores)}, "
                         f"{_ms(times.shared)} at one memory, reads {_ms(times.reads)} of {times.missing:.0f} blocks; layer "
                         f"{_ms(times.total)}{bound}"),
            **(_by_layer(planner, split) if "by_ffn" in split else {}),
            **_streamed(planner, split),
            "attention": _with(_share(split["attention"]), f"{name} {_ms(attention.accelerator)}, cores {_ms(attention.cores)}, "
                               f"{_ms(attention.shared)} at one memory"),
            "head": _with(_share(split["head"]), f"{name} {_ms(head.accelerator)}, cores {_ms(head.cores)}, "
                          f"{_ms(head.shared)} at one memory")}


def _class_row(planner, split):
    found = planner.workload.batches[split["batch"]].classes()
    return {"batch": split["batch"], "hot": _share(split["hot"] / planner.model["ffn"]),
            "cold": _share(1 - split["hot"] / planner.model["ffn"]), "firing": _share(found["firing"]),
            "fires_in_most_steps": _share(found["hot"])}


def _prefill_row(planner):
    return {"batch": "prefill", "hot": "100%", "cold": "0%", "why": f"from {planner.dense_rows} rows on every neuron is computed"}


def _graphs(planner):
    name = planner.settings["accelerator"]
    if not name:
        return []
    return [{"batch": split["batch"], "unit": name, "name": f"decode_b{split['batch']}",
             "hot_neurons": sorted(set(split["by_ffn"].values())) if "by_ffn" in split else split["hot"],
             "heads": round(split["attention"] * planner.model["kv_heads"]),
             "loaded": "from_start" if split["batch"] == 1 else "at_change", "grows": _growth(split)} for split in planner.splits]


def _growth(split):
    if split["batch"] == 1:
        return "from the start"
    return (f"{_ms(split['growth'])} of reading in each layer when the step before it had a row less, beside "
            f"{_ms(split['attention_times'].total)} of attention")


def _predicted_row(planner, split):
    seconds = planner.balance.step(split["times"], split["attention_times"], split["head_times"])
    return {"batch": split["batch"], "ffn": _ms(split["times"].total), "attention": _ms(split["attention_times"].total),
            "head": _ms(split["head_times"].total), "step": _ms(seconds), "tokens_per_s": round(split["batch"] / seconds, 2)}


def _balance_rows(planner, split):
    """Every eighth of the hot shares that were compared, and the chosen one, with what of it is streamed."""
    timed, own, streamed = planner.table[split["batch"]], planner.model["ffn"], split.get("streamed", 0)
    rows = [(hot, 0, times) for index, (hot, times) in enumerate(timed)
            if index % max(1, len(timed) // 8) == 0 or (hot == split["hot"] and not streamed)]
    if streamed:
        rows = sorted([*rows, (split["hot"], streamed, split["times"])], key=lambda row: row[:2])
    return [{"hot": _share(hot / own, up=bool(streams)), **({"streamed": _share(streams / own, up=True)} if streams else {}),
             "accelerator": _ms(times.accelerator), "cores": _ms(times.cores), "reads": _ms(times.reads), "shared": _ms(times.shared),
             "layer": _ms(times.total)} for hot, streams, times in rows]


def _with(value, why):
    return {"value": value, "why": why}


def _share(share, up=False):
    """Four digits; rounded up where a run rounds down to whole clusters."""
    percent = 100 * share
    text = f"{percent:.4f}"
    if up and float(text) < percent:
        text = f"{percent + 0.00005:.4f}"
    return text.rstrip("0").rstrip(".") + "%"


def _ms(seconds):
    return f"{1e3 * seconds:.3f} ms"


def _mib(count):
    return f"{count / MIB:.3f} MiB"


def write(tree, indent=0):
    """YAML. Small maps and lists of plain values stand on one line."""
    pad, lines = "  " * indent, []
    for key, value in tree.items():
        if isinstance(value, dict) and "why" in value and "value" in value:
            lines.append(f"{pad}{key}:\n{pad}  value: {_flow(value['value'])}\n{pad}  why: {_flow(value['why'])}")
        elif isinstance(value, dict):
            lines.append(f"{pad}{key}:\n{write(value, indent + 1)}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{pad}{key}:")
            for item in value:
                flat = all(not isinstance(part, (dict, list)) for part in item.values())
                lines.append(f"{pad}- {_flow(item)}" if flat else f"{pad}- " + write(item, indent + 1).lstrip())
        else:
            lines.append(f"{pad}{key}: {_flow(value)}")
    return "\n".join(lines)


def _flow(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        plain = value and value.replace("_", "").replace("-", "").isalnum() and not value[0].isdigit()
        return value if plain or _is_quantity(value) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def _is_quantity(text):
    number = text.rstrip("%").split(" ")[0]
    try:
        float(number)
    except ValueError:
        return False
    return text.endswith("%") or (" " in text and text.split(" ", 1)[1] in ("ms", "MiB"))


def text_of(plan):
    head = ("# An execution plan (docs/design/planner.md): `engine: {plan: THIS FILE}` in an experiment runs it. Times are of one layer\n"
            "# unless said otherwise, predicted from probes of the device and the profile; nothing was simulated or run to choose.\n")
    return head + write(plan) + "\n"
