"""Configurations drawn by seed: parts, formats, batch, prompt length and budgets, in combinations that nobody wrote down."""
import random

from cells import DEVICE, MODELS, nested

SCHEMES = ("f16", "q8_0", "q4_0", "w4g64z", "w2g64z")
SPARE = "cpu7"
ADAPTERS = ("all", "attention")  # what they adapt; of a mixture's FFNs none can be beside the base
WORDS = "Once upon a time there was a little dog who liked to play in the park with a big red ball and a cat".split()
KV_PLACE = ("kv.dram_tokens", "kv.prefetch", "kv.keep", "kv.sinks", "prefill_order", "prefill_span")
CODED_KV = ("int8_fp8", "int4_fp8", "int8_e5m2", "int4_e5m2")  # which no accelerator reads
ACTIVATIONS = ("f32", "f16")
# What a combination of parts may be refused for, and nothing else.
MAY_BE_REFUSED = ("memory.budget",)


def draw(seed, loads):
    """-> (model, scheme, experiment, oracle): the oracle has the same numeric contracts on one core, everything in DRAM."""
    rng = random.Random(seed)
    machine, model, scheme = rng.choice(("sim", "host")), rng.choice(sorted(MODELS)), rng.choice(SCHEMES)
    shared = {"prefill_chunk": rng.randint(1, 16)} | _numerics(rng, scheme) | _kv(rng)
    shared |= _coded(random.Random(f"coded {seed}"), shared) | _activations(random.Random(f"activations {seed}"))
    workload = {"prompt": " ".join(WORDS[:rng.randint(1, len(WORDS))]), "output_tokens": rng.randint(1, 8), "batch": rng.randint(1, 4),
                "stop_at_eos": False, "seed": rng.randint(1, 9)}
    engine = shared | _parts(rng, model, machine, loads) | _kv_place(rng) | _methods(rng)
    engine |= _staged(random.Random(f"staged {seed}"), engine) | _resident(random.Random(f"resident {seed}"), engine)
    memory = {"budget": f"{2 ** rng.uniform(22, 26) / 2 ** 20:.3f} MiB"} if rng.random() < 0.5 else {}
    lora = _lora(rng, engine, workload)
    shared |= lora
    engine |= lora
    tree = {"experiment": f"drawn_{seed}", "machine": machine, "engine": nested(engine), "workload": workload, "memory": memory}
    if machine == "sim":
        tree["device"] = str(DEVICE)
    return model, scheme, tree, _oracle(tree, shared, engine)


def _oracle(tree, shared, engine):
    """Clusters sum up in an order of their own, which the split between units is a part of, and so are the heads that attend to staged keys
    and values: theirs is the same placement with a core in place of the accelerator."""
    oracle = {"experiment": "oracle", "machine": "host", "workload": tree["workload"], "engine": nested({"policy": "dense"} | shared)}
    if "ffn.clusters.neurons" in engine or "placement.kv" in engine:
        own = {key: value for key, value in engine.items() if key not in KV_PLACE}
        spare = {"placement.unit": SPARE, "placement.graph_units": [SPARE]}
        own |= {key: value for key, value in spare.items() if key in own}
        oracle |= {"machine": "sim", "device": str(DEVICE), "engine": nested(own)}
    return oracle


def _lora(rng, engine, workload):
    """An adapter of ADAPTERS for each sequence, or none; the files are put in place where the model is."""
    if rng.random() > 0.3:
        return {}
    workload["adapter"] = [rng.choice(("none", *ADAPTERS)) for _ in range(workload["batch"])]
    by_neuron = engine["ffn.kind"] == "clusters" or engine.get("weights.kind") == "bundles"
    return {"lora.order": "a_bx" if by_neuron else rng.choice(("a_bx", "ab_x"))}


def _numerics(rng, scheme):
    contracts = [{}, {"products.numerics": "fp16"}]
    if scheme != "f16":
        contracts.append({"products.numerics": "int8"})
    if scheme.startswith("w"):
        contracts.append({"products.numerics": "int8_tables"})
    return rng.choice(contracts)


def _kv(rng):
    """Keys in int8 and values in e4m3 are drawn with the rest; which of their kind they are is a draw of its own (`_coded`)."""
    return {"kv.format": rng.choice(("f32", "f16", "int8_fp8")), "kv.per": rng.choice(("kv_head", "kv_head", "query_head"))}


def _coded(rng, kv):
    return {"kv.format": rng.choice(CODED_KV)} if kv["kv.format"] in CODED_KV else {}


def _activations(rng):
    """A draw of its own, so that all others stay what they were."""
    return {"graph.activations": rng.choice(ACTIVATIONS)} if rng.random() < 0.6 else {}


def _kv_place(rng):
    placed = {"kv.block_tokens": rng.choice((1, 2, 4, 16))}
    if rng.random() < 0.4:
        placed |= {"kv.dram_tokens": rng.choice((0, 3, 8, 100)), "kv.prefetch": rng.random() < 0.7,
                   "kv.keep": rng.choice(("first", "recent", "sinks", "budget")), "kv.sinks": rng.choice((0, 1, 5))}
    if rng.random() < 0.7:
        placed |= {"prefill_order": rng.choice(("chunks", "layers", "auto"))}
        if rng.random() < 0.3:
            placed |= {"prefill_span": rng.randint(1, 20)}
    return placed


def _staged(rng, engine):
    """A draw of its own, so that all others stay what they were. No core takes a chunk's attention as a neural engine does."""
    attends = "placement.unit" in engine and engine["kv.format"] in CODED_KV
    return {"placement.kv": "staged"} if attends and rng.random() < 0.5 else {}


def _resident(rng, engine):
    """A draw of its own, so that all others stay what they were: which experts have a graph, and of what size."""
    if engine["ffn.kind"] != "experts":
        return {}
    chosen = {"base_of": rng.choice(("pairs", "rows")), "max_drop": rng.choice(("0%", "10%", "100%")),
              "max_padding": rng.choice(("0%", "50%", "100%")), "cold": rng.choice(("0%", "25%", "by_time")),
              "beyond": rng.choice(("cores", "load")),
              "rank": rng.choice(("attention_output", "router_weight", "random")), "drift": rng.choice(("stay", "follow"))}
    if rng.random() < 0.5:
        chosen["resident"] = rng.choice(("1 KiB", "500 KiB", "2 MiB"))
    return {f"ffn.experts.{key}": value for key, value in chosen.items()}


def _methods(rng):
    methods = ("automatic", "lut", "fused", "convert", "copy", "scatter", "uncoalesced", "native")
    return {"products.decode": rng.choice(methods), "products.prefill": rng.choice(methods), "products.decode_rows": rng.randint(1, 4)}


def _parts(rng, model, machine, loads):
    """Weights, FFN and placement, each drawn by itself from what goes together."""
    unit = "npu" if machine == "sim" else "cpu1"
    cores = ["cpu0"] if machine == "host" else [f"cpu{i}" for i in range(rng.randint(1, 3))]
    ffn = rng.choice(("dense", "clusters", "experts") if model == "mixture" else ("dense", "clusters"))
    placement = rng.choice(("cores", "unit", "layers", "split", "chunk_attention"))
    engine = {"ffn.kind": ffn, "placement.units": cores}
    if placement == "unit":
        engine |= {"placement.kind": "unit", "placement.units": [rng.choice((cores[0], unit) if ffn == "dense" else (cores[0],))]}
    elif placement == "split":
        shares = {key: f"{rng.choice((0, 25, 50, 100))}%" for key in ("hot", "attention", "head")}
        engine |= {"placement.unit": unit, "placement.splits": [{"batch": rng.randint(1, 4)} | shares],
                   "placement.prefill": rng.random() < 0.5}
    elif placement != "cores":
        engine["placement.kind"] = placement
        engine["placement.unit" if placement == "layers" else "placement.graph_units"] = unit if placement == "layers" else [unit]
    if ffn == "clusters":
        engine |= _bundles(rng)
    elif ffn == "experts":
        engine["weights.kind"] = rng.choice(("dram", "paged", "streamed"))
        engine |= {"placement.graph_units": [unit], "ffn.experts.loads": loads, "ffn.experts.overflow": "cpu",
                   "ffn.experts.group": rng.choice((1, 2, 8)), "ffn.experts.graph_rows": rng.choice((1, 4, 16)),
                   "ffn.experts.tiers": rng.random() < 0.7, "ffn.experts.side_by_side": rng.random() < 0.7}
    else:
        engine["weights.kind"] = rng.choice(("dram", "paged", "streamed", "bundles"))
        if engine["weights.kind"] == "bundles":
            engine |= _bundles(rng) | {"weights.kind": "bundles"}
    return engine


def _bundles(rng):
    engine = {"weights.kind": rng.choice(("bundles", "bundles", "dram", "paged", "streamed")),
              "weights.eviction": rng.choice(("lru", "step_lru", "lfu", "arc", "window", "none")),
              "weights.two_phases": rng.random() < 0.5, "weights.staging": rng.choice(("64 KiB", "1 MiB")),
              "ffn.clusters.pipeline": rng.choice(("none", "matrix", "cluster")), "ffn.clusters.neurons": rng.choice((8, 64, 512)),
              "ffn.clusters.dense_rows": rng.choice((2, 16)), "ffn.clusters.hot_cluster": 64}
    if rng.random() < 0.3:
        engine["weights.bundle"] = False
    return engine
