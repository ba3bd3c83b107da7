"""Configurations drawn by seed: parts, formats, batch, prompt length and budgets, in combinations that nobody wrote down. Each function
draws one section of an engine, as dotted keys; `sections` has more of them."""
import json
import random

from ..base.trees import nested
from . import sections

SCHEMES = ("f16", "q8_0", "q4_0", "w4g64z", "w2g64z")
WORDS = "Once upon a time there was a little dog who liked to play in the park with a big red ball and a cat".split()
CODED_KV = ("int8_fp8", "int4_fp8", "int8_e5m2", "int4_e5m2")  # which no accelerator reads
ACTIVATIONS = ("f32", "f16")
EXPERTS = 8
LOADS = [1 / EXPERTS] * EXPERTS  # of a layer: no expert is busier than another
SHAPES = 40  # random models of a kind and scheme


def case(seed, machine="virtual", device=None):
    """-> a case as `vitro torture` runs it: an experiment over a random model, without its faults. Those are drawn when it is known how
    many operations there are."""
    rng = random.Random(f"torture {seed}")
    kind, scheme = rng.choice(("dense", "mixture")), rng.choice(SCHEMES)
    layers = rng.randint(1, 3)
    other = random.Random(f"family {seed}").random() < 0.3 and (kind == "dense" or layers > 1)
    leading = int(other and kind == "mixture")  # layers before those with experts
    engine = _engine(rng, seed, machine, kind, scheme, layers, leading)
    if "kv.dram_tokens" in engine:
        engine["kv.dram_tokens"] = rng.choice((0, 3, 8))
    workload = {"prompt": " ".join(WORDS[:rng.randint(1, 14)]), "output_tokens": rng.randint(1, 8), "batch": rng.randint(1, 4),
                "stop_at_eos": False, "seed": rng.randint(1, 9)}
    reward = judged(random.Random(f"scaling {seed}"), workload, layers, scheme)
    adapters = adapted(random.Random(f"adapters {seed}"), engine, workload)
    if "scaling" not in workload:
        sections.lengths(random.Random(f"lengths {seed}"), workload)
    memory = {"budget": f"{2 ** rng.uniform(20, 24) / 2 ** 20:.3f} MiB"} if rng.random() < 0.3 else {}
    if not memory and engine.get("weights.kind", "dram") != "dram" and rng.random() < 0.6:
        memory = {"ffn_in_dram": f"{rng.choice((0, 25, 50, 100))}%"}
    tree = {"experiment": f"torture_{seed}", "machine": "sim" if machine == "sim" else "host", "engine": nested(engine),
            "workload": workload, "memory": memory}
    if machine == "sim":
        tree["device"] = device
    case = {"seed": seed, "machine": machine, "timing": rng.randint(1, 1 << 30),
            "model": {"kind": kind, "seed": rng.randint(1, SHAPES), "layers": layers, "format": scheme} |
            ({"other": True} if other else {})}
    return case | reward | adapters | {"experiment": tree}


def _engine(rng, seed, machine, kind, scheme, layers, leading):
    """leading: layers before those with experts."""
    def of(section):
        return rng if section in ("coded", "activations", "staged", "resident") else random.Random(f"{section} {seed}")
    engine = arithmetic(rng, scheme)
    engine |= placed(rng, of, (machine, kind, scheme), engine, [LOADS] * (layers - leading), layers, leading)
    if machine == "virtual" and of("hexagon").random() < 0.4:
        engine = json.loads(json.dumps(engine).replace('"npu"', '"hexagon"'))  # its stand-in
    return engine


def arithmetic(rng, scheme):
    """The keys that an engine begins with."""
    return {"prefill_chunk": rng.randint(1, 16)} | numerics(rng, scheme) | kv(rng)


def placed(rng, of, what, engine, loads, layers, leading=0, more=()):
    """-> an engine that began with these keys, and all other sections in the order in which one looks at another. what: machine, kind of
    the model, format. of: a section's name -> its generator. Most have one of their own: what others draw of a seed stays when one is
    added. more: further sections, which are asked before the last ones."""
    machine, kind, scheme = what
    engine = engine | coded(of("coded"), engine) | activations(of("activations")) | exact_tables(of("exact tables"), engine)
    engine |= sections.contracts(of("contracts"), scheme, engine) | sections.attention(of("attention"))
    engine |= parts(rng, kind, machine, loads) | kv_place(rng) | methods(rng)
    engine |= sections.offload(of("offload"), machine, engine)
    engine |= staged(of("staged"), engine) | resident(of("resident"), engine)
    engine |= by_layer(of("by layer"), engine, layers, EXPERTS if kind == "mixture" else 1, leading)
    for section in (shapes, fused, together, depth):
        engine |= section(of(section.__name__), engine)
    engine |= expert_cache(of("expert cache"), kind, engine)
    engine |= neurons_ahead(of("neurons ahead"), kind, engine) | sections.caches(of("caches"), engine, loads)
    for section in (sections.codes, sections.tiers, sections.loads, sections.static_graphs, sections.by_image, sections.head, *more):
        engine |= section(of(section.__name__), engine)
    engine |= sections.layout(of("layout"), scheme, engine) | sections.accelerators_contract(of("accelerator"), scheme, engine)
    own = "a16" if "gpu" in engine["placement.units"] else "float"  # where none is drawn; int8, the default without a GPU, is drawn too
    return {"products.numerics": own} | engine | checked(of("checksums"), engine)


def numerics(rng, scheme):
    contracts = [{}, {"products.numerics": "fp16"}]
    if scheme != "f16":
        contracts.append({"products.numerics": "int8"})
    if scheme.startswith("w"):
        contracts.append({"products.numerics": "int8_tables"})
    return rng.choice(contracts)


def exact_tables(rng, engine):
    """Tables of activations in 14 bits in place of rounded ones."""
    tables = engine.get("products.numerics") == "int8_tables"
    return {"products.numerics": "int16_tables"} if tables and rng.random() < 0.5 else {}


def kv(rng):
    """Keys in int8 and values in e4m3 are drawn with the rest; which of their kind they are is a draw of its own (`coded`)."""
    return {"kv.format": rng.choice(("f32", "f16", "int8_fp8")), "kv.per": rng.choice(("kv_head", "kv_head", "query_head"))}


def coded(rng, drawn):
    return {"kv.format": rng.choice(CODED_KV)} if drawn["kv.format"] in CODED_KV else {}


def activations(rng):
    return {"graph.activations": rng.choice(ACTIVATIONS)} if rng.random() < 0.6 else {}


def kv_place(rng):
    placed = {"kv.block_tokens": rng.choice((1, 2, 4, 16))}
    if rng.random() < 0.4:
        placed |= {"kv.dram_tokens": rng.choice((0, 3, 8, 100)), "kv.prefetch": rng.random() < 0.7,
                   "kv.keep": rng.choice(("first", "recent", "sinks", "budget")), "kv.sinks": rng.choice((0, 1, 5))}
    if rng.random() < 0.7:
        placed |= {"prefill_order": rng.choice(("chunks", "layers", "auto"))}
        if rng.random() < 0.3:
            placed |= {"prefill_span": rng.randint(1, 20)}
    return placed


def staged(rng, engine):
    """No core takes a chunk's attention as a neural engine does."""
    attends = "placement.unit" in engine and engine["kv.format"] in CODED_KV
    return {"placement.kv": "staged"} if attends and rng.random() < 0.5 else {}


def checked(rng, engine):
    """Whether the engine itself holds keys and values that come back from flash against checksums, or what stands before the storage."""
    return {"kv.checksums": rng.random() < 0.6} if "kv.dram_tokens" in engine or engine.get("kv.keep") == "budget" else {}


def judged(rng, workload, layers, scheme):
    """Several samples in place of a batch, and who judges them. -> the reward model, for one that does."""
    if rng.random() < 0.7:
        return {}
    del workload["batch"]
    method = rng.choice(("best_of_n", "beam_search", "beam_search", "self_consistency"))
    scaling = {"method": method, "samples": rng.choice((1, 2, 3, 4))}
    if method == "beam_search":
        scaling |= {"samples": rng.choice((2, 4)), "step": {"max_tokens": rng.randint(1, 4)}}
        scaling["width"] = rng.choice((1, scaling["samples"] // 2, scaling["samples"]))
    if scaling["samples"] > 1:
        workload["sampling"] = {"temperature": 1}
    workload["scaling"] = scaling
    if method == "self_consistency":
        scaling["answer"] = "([a-z])"
        return {}
    scaling["scorer"] = {"kind": rng.choice(("log_probability", "regex", "drawn", "model", "model", "model"))}
    if scaling["scorer"]["kind"] == "regex":
        scaling["scorer"]["patterns"] = ["a", "[0-9]"]
    if scaling["scorer"]["kind"] != "model":
        return {}
    scaling["scorer"] |= {"suffix": rng.choice(("", " so")), "incremental": rng.random() < 0.7,
                          "placement": rng.choice(("cores", "cores", "model"))}
    return {"reward": {"kind": rng.choice(("dense", "mixture")), "seed": rng.randint(1, SHAPES), "layers": rng.randint(1, layers),
                       "format": scheme, "value_head": True}}


def adapted(rng, engine, workload):
    """Adapters beside the model, and who has which one. -> their seeds."""
    if rng.random() < 0.7:
        return {}
    seeds = [{"seed": rng.randint(1, 4)} for _ in range(rng.randint(1, 2))]
    names = ["none", *(f"a{i}" for i in range(len(seeds)))]
    each = "scaling" not in workload and rng.random() < 0.6
    workload["adapter"] = [rng.choice(names) for _ in range(workload["batch"])] if each else names[-1]
    engine["lora.order"] = rng.choice(("a_bx", "a_bx", "ab_x"))
    return {"adapters": seeds}


def together(rng, engine):
    """How many small reads go in one submission."""
    most = rng.choice((None, 1, 3, 8))
    return {"ffn.clusters.io_together": most} if most and "ffn.clusters.neurons" in engine else {}


def depth(rng, engine):
    """How many reads of neurons are in flight: one where nothing is said on the virtual machine, whose storage states no depth. Submissions
    of several take 16 and more."""
    reads = rng.choice((None, 4, 32, 64))
    return {"ffn.clusters.io_depth": reads} if reads and "ffn.clusters.neurons" in engine else {}


def expert_cache(rng, kind, engine):
    """Experts behind a cache in place of pages or of matrices that pass through."""
    if kind != "mixture" or engine["weights.kind"] not in ("paged", "streamed") or rng.random() < 0.4:
        return {}
    rules = ("lru", "step_lru", "lfu", "arc", "popularity", "none") + (() if "ffn.clusters.neurons" in engine else ("router",))
    return {"weights.kind": "experts", "weights.eviction": rng.choice(rules), "weights.admission": rng.choice(("rule", "always", "bypass")),
            "weights.experts.look_ahead": rng.random() < 0.7, "weights.experts.window": rng.choice((1, 3, 8))}


def neurons_ahead(rng, kind, engine):
    """Neurons of the experts that look-ahead names, where they are behind a cache."""
    cached = kind == "mixture" and engine["ffn.kind"] != "experts" and (
        engine["weights.kind"] == "bundles" or (engine["weights.kind"] == "experts" and "ffn.clusters.neurons" in engine))
    if not cached or rng.random() < 0.4:
        return {}
    return {"weights.experts.neurons_ahead": rng.choice(("4 KiB", "64 KiB", "1 MiB")), "weights.experts.look_ahead": True}


def resident(rng, engine):
    """Which experts have a graph, and of what size."""
    if engine["ffn.kind"] != "experts":
        return {}
    chosen = {"base_of": rng.choice(("pairs", "rows")), "max_drop": rng.choice(("0%", "10%", "100%")),
              "max_padding": rng.choice(("0%", "50%", "100%")), "cold": rng.choice(("0%", "25%", "by_time")),
              "beyond": rng.choice(("cores", "load")),
              "rank": rng.choice(("attention_output", "router_weight", "random")), "drift": rng.choice(("stay", "follow"))}
    if rng.random() < 0.5:
        chosen["resident"] = rng.choice(("1 KiB", "500 KiB", "2 MiB"))
    if chosen["cold"] != "by_time":  # which is of the rule by load
        chosen["place"] = rng.choice(("load", "load", "hottest", "cores"))
    return {f"ffn.experts.{key}": value for key, value in chosen.items()}


def by_layer(rng, engine, layers, experts, whole=0):
    """Shares of an accelerator that differ by layer, and by expert but in the first `whole` layers; and neurons of it that do not stay."""
    if "placement.splits" not in engine or engine["ffn.kind"] == "experts" or rng.random() < 0.4:
        return {}

    def share():
        return f"{rng.choice((0, 25, 50, 100))}%"
    split = dict(engine["placement.splits"][0])
    if rng.random() < 0.6:
        one = [layer < whole or experts == 1 or rng.random() < 0.4 for layer in range(layers)]
        split["hot_by_layer"] = [share() if alike else [share() for _ in range(experts)] for alike in one]
    by_neuron = engine["ffn.kind"] == "clusters" or engine["weights.kind"] == "bundles"
    if by_neuron and rng.random() < 0.5 and ("hot_by_layer" in split or split["hot"] != "0%"):
        split["streamed"] = rng.choice(("10%", "25%"))
    return {"placement.splits": [split]}


def shapes(rng, engine):
    """Whether each launch of experts has a graph of just its rows."""
    return {"ffn.experts.shapes": "exact"} if engine["ffn.kind"] == "experts" and rng.random() < 0.3 else {}


def fused(rng, engine):
    """What becomes of the operators that only move data, and of parts of norms and attention: they need a core."""
    alone = engine.get("placement.kind") == "unit" and not engine["placement.units"][0].startswith("cpu")
    return {} if alone or rng.random() < 0.5 else {"graph.fuse": rng.choice(("none", "geometry"))}


def methods(rng):
    methods = ("automatic", "lut", "fused", "two_level", "scaled_tables", "convert", "copy", "scatter", "uncoalesced", "native")
    return {"products.decode": rng.choice(methods), "products.prefill": rng.choice(methods), "products.decode_rows": rng.randint(1, 4)}


def parts(rng, model, machine, loads):
    """Weights, FFN and placement, each drawn by itself from what goes together."""
    unit = "cpu1" if machine == "host" else "npu"
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
        engine |= bundles(rng)
    elif ffn == "experts":
        engine["weights.kind"] = rng.choice(("dram", "paged", "streamed"))
        engine |= {"placement.graph_units": [unit], "ffn.experts.loads": loads, "ffn.experts.overflow": "cpu",
                   "ffn.experts.group": rng.choice((1, 2, 8)), "ffn.experts.graph_rows": rng.choice((1, 4, 16)),
                   "ffn.experts.tiers": rng.random() < 0.7, "ffn.experts.side_by_side": rng.random() < 0.7}
    else:
        engine["weights.kind"] = rng.choice(("dram", "paged", "streamed", "bundles"))
        if engine["weights.kind"] == "bundles":
            engine |= bundles(rng) | {"weights.kind": "bundles"}
    return engine


def bundles(rng):
    engine = {"weights.kind": rng.choice(("bundles", "bundles", "dram", "paged", "streamed")),
              "weights.eviction": rng.choice(("lru", "step_lru", "lfu", "arc", "window", "none")),
              "weights.two_phases": rng.random() < 0.5, "weights.staging": rng.choice(("64 KiB", "1 MiB")),
              "ffn.clusters.pipeline": rng.choice(("none", "matrix", "cluster")), "ffn.clusters.neurons": rng.choice((8, 64, 512)),
              "ffn.clusters.dense_rows": rng.choice((2, 16)), "ffn.clusters.hot_cluster": 64}
    if rng.random() < 0.3:
        engine["weights.bundle"] = False
    return engine
