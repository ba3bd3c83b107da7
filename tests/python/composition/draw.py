"""Configurations drawn by seed: parts, formats, batch, prompt length and budgets, in combinations that nobody wrote down."""
import random

from cells import DEVICE, FAMILIES, JUDGED, LAYERS, MODELS
from vitro.base.trees import nested
from vitro.torture.draw import (SCHEMES, WORDS, activations, by_layer, coded, exact_tables, fused, kv, kv_place, methods, neurons_ahead,
                                numerics, parts, resident, shapes, staged)

SPARE = "cpu7"
ADAPTERS = ("all", "attention")  # what they adapt; of a mixture's FFNs none can be beside the base
KV_PLACE = ("kv.dram_tokens", "kv.prefetch", "kv.keep", "kv.sinks", "prefill_order", "prefill_span")
# What a combination of parts may be refused for, and nothing else.
MAY_BE_REFUSED = ("memory.budget",)


def draw(seed, loads):
    """-> (model, scheme, experiment, oracle): the oracle has the same numeric contracts on one core, everything in DRAM."""
    rng = random.Random(seed)
    machine, model, scheme = rng.choice(("sim", "host")), rng.choice(sorted(MODELS)), rng.choice(SCHEMES)
    shared = {"prefill_chunk": rng.randint(1, 16)} | numerics(rng, scheme) | kv(rng)
    shared |= coded(random.Random(f"coded {seed}"), shared) | activations(random.Random(f"activations {seed}"))
    shared |= exact_tables(random.Random(f"exact tables {seed}"), shared)
    workload = {"prompt": " ".join(WORDS[:rng.randint(1, len(WORDS))]), "output_tokens": rng.randint(1, 8), "batch": rng.randint(1, 4),
                "stop_at_eos": False, "seed": rng.randint(1, 9)}
    engine = shared | parts(rng, model, machine, loads) | kv_place(rng) | methods(rng)
    engine |= staged(random.Random(f"staged {seed}"), engine) | resident(random.Random(f"resident {seed}"), engine)
    engine |= _expert_cache(random.Random(f"expert cache {seed}"), model, engine)
    engine |= by_layer(random.Random(f"by layer {seed}"), engine, LAYERS[model], 8 if model == "mixture" else 1)
    engine |= neurons_ahead(random.Random(f"neurons ahead {seed}"), model, engine)
    engine |= shapes(random.Random(f"shapes {seed}"), engine)
    engine |= _on_cores(random.Random(f"on cores {seed}"), engine) | fused(random.Random(f"fused {seed}"), engine)
    scheme = _with_outliers(random.Random(f"outliers {seed}"), scheme)
    scheme = random.Random(f"wide codes {seed}").choice((scheme, "w8g64z", "w8z_channel")) if scheme == "q8_0" else scheme
    model = _other_family(random.Random(f"family {seed}"), model, engine)
    memory = {"budget": f"{2 ** rng.uniform(22, 26) / 2 ** 20:.3f} MiB"} if rng.random() < 0.5 else {}
    _judged(random.Random(f"judged {seed}"), workload, memory)
    lora = _lora(rng, workload)
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
        own = {key: value for key, value in engine.items() if key not in (*KV_PLACE, "weights.experts.neurons_ahead")}
        spare = {"placement.unit": SPARE, "placement.graph_units": [SPARE]}
        own |= {key: value for key, value in spare.items() if key in own}
        oracle |= {"machine": "sim", "device": str(DEVICE), "engine": nested(own)}
    return oracle


def _other_family(rng, model, engine):
    """Of as many layers with experts, one of which has none before them: a list of shares by layer is of another model."""
    other = rng.random() < 0.25 and "hot_by_layer" not in engine.get("placement.splits", [{}])[0]
    return FAMILIES[model] if other else model


def _with_outliers(rng, scheme):
    """In place of q4_0, whose contracts the format has."""
    return "w4_outliers" if scheme == "q4_0" and rng.random() < 0.4 else scheme


def _judged(rng, workload, memory):
    """Samples that a reward model judges, in place of a batch. It stays in DRAM beside the rest."""
    if rng.random() < 0.75:
        return
    del workload["batch"]
    workload["sampling"] = {"temperature": 1}
    workload["scaling"] = rng.choice(({"method": "best_of_n", "samples": rng.choice((2, 3, 4))},
                                      {"method": "beam_search", "samples": 4, "width": rng.choice((1, 2)),
                                       "step": {"max_tokens": rng.randint(1, 4)}})) | JUDGED
    memory.clear()


def _lora(rng, workload):
    """An adapter of ADAPTERS for each sequence, or none; the files are put in place where the model is."""
    if rng.random() > 0.3:
        return {}
    drawn = [rng.choice(("none", *ADAPTERS)) for _ in range(workload.get("batch", 1))]
    workload["adapter"] = drawn if "batch" in workload else drawn[0]
    return {"lora.order": rng.choice(("a_bx", "ab_x"))}


def _on_cores(rng, engine):
    """What only cores can do: share work by their rates."""
    if engine.get("placement.kind", "cores") != "cores" or "placement.unit" in engine or "placement.graph_units" in engine:
        return {}
    return {"placement.balance": rng.choice(("even", "rates"))}


def _expert_cache(rng, model, engine):
    """Experts behind a cache in place of whole matrices elsewhere."""
    if model != "mixture" or engine["weights.kind"] in ("dram", "bundles") or "ffn.clusters.neurons" in engine or rng.random() < 0.3:
        return {}
    return {"weights.kind": "experts", "weights.eviction": rng.choice(("lru", "step_lru", "lfu", "arc", "popularity", "router", "none")),
            "weights.experts.look_ahead": rng.random() < 0.7, "weights.experts.window": rng.choice((1, 3, 8))}
