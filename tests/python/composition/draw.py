"""Configurations drawn by seed: parts, formats, batch, prompt length and budgets, in combinations that nobody wrote down."""
import random
from dataclasses import dataclass

from cells import DEVICE, JUDGED
from conversations import conversation
from drawn_models import ADAPTERS, MODELS
from families import OTHERS, UNLIKE
from vitro.base.trees import nested
from vitro.torture import sections
from vitro.torture.draw import SCHEMES, WORDS, arithmetic, placed

SPARE = "cpu7"  # of the simulated phone, at work in no configuration
KV_PLACE = ("kv.dram_tokens", "kv.prefetch", "kv.keep", "kv.sinks", "kv.checksums", "prefill_order", "prefill_span")
# What decides tokens, wherever work and data are.
CONTRACT = ("prefill_chunk", "products.numerics", "products.prefill_numerics", "products.decode_rows", "kv.format", "kv.per",
            "graph.activations", "attention.kernel", "lora.order")
# What a combination of parts may be refused for, and nothing else.
MAY_BE_REFUSED = ("memory.budget", "memory.ffn_in_dram")
LAYERS = {"dense": 4, "mixture": 3}


@dataclass(frozen=True)
class Drawn:
    """`apart`: its output matrix is not its embedding. `oracle`: the same numeric contracts on cores, everything in DRAM."""
    model: str
    scheme: str
    apart: bool
    tree: dict
    oracle: dict


def draw(seed, loads):
    """A section that came after others has a generator of its own: what they draw of a seed stays."""
    def own(section):
        return random.Random(f"{section} {seed}")
    rng = random.Random(seed)
    machine, kind, scheme = rng.choice(("sim", "host")), rng.choice(sorted(MODELS)), rng.choice(SCHEMES)
    engine = arithmetic(rng, scheme)
    workload = {"prompt": " ".join(WORDS[:rng.randint(1, len(WORDS))]), "output_tokens": rng.randint(1, 8), "batch": rng.randint(1, 4),
                "stop_at_eos": False, "seed": rng.randint(1, 9)}
    scheme = _scheme(own("scheme"), scheme)
    engine = placed(rng, own, (machine, kind, scheme), engine, loads, LAYERS[kind], more=(_on_cores, sections.dropping))
    apart = own("embedding").random() < 0.15
    if apart:
        engine["weights.embedding"] = "flash"
    model = _model(own("family"), kind, engine)
    engine |= _lora(own("lora"), workload)
    sections.lengths(own("lengths"), workload)
    judged = _judged(own("judged"), workload)
    if not judged:
        names = ("none", *ADAPTERS) if "lora.order" in engine else ()
        conversation(own("conversation"), workload, names)
    memory = {} if judged else _memory(own("memory"), model, engine)
    tree = {"experiment": f"drawn_{seed}", "machine": machine, "engine": nested(engine), "workload": workload, "memory": memory}
    if machine == "sim":
        tree["device"] = str(DEVICE)
    return Drawn(model, scheme, apart, tree, _oracle(tree, engine))


def _oracle(tree, engine):
    """Clusters sum up in an order of their own, which the split between units is a part of, and so are the heads that attend to staged keys
    and values, and what has an accelerator's own contract: theirs is the same placement with a core in place of the accelerator."""
    contract = {key: value for key, value in engine.items() if key in CONTRACT}
    oracle = {"experiment": "oracle", "machine": "host", "workload": tree["workload"], "engine": nested({"policy": "dense"} | contract)}
    placed = engine.get("placement.kind") == "prompts" or {"placement.kv", "placement.activations"} & engine.keys()
    by_room = "ffn.clusters.neurons" in engine or engine.get("ffn.experts.overflow") == "drop"
    if placed or by_room:
        bound = tree["memory"] if by_room else {}
        oracle |= {"machine": "sim", "device": str(DEVICE), "engine": nested(_on_spare(engine, bool(bound))), "memory": bound}
    return oracle


def _on_spare(engine, bound):
    """bound: which neurons are in DRAM follows from what room there is, and which of them are added up together from that. So does which
    experts are in graphs, whose rows may be dropped. Then all that takes room is the same."""
    elsewhere = () if bound else (*KV_PLACE, "weights.experts.neurons_ahead", "weights.embedding")
    own = {key: value for key, value in engine.items() if key not in elsewhere}
    own |= {key: value for key, value in {"placement.unit": SPARE, "placement.graph_units": [SPARE]}.items() if key in own}
    units = own["placement.units"]
    if own.get("placement.kind") == "unit" and units[0] in ("npu", "gpu"):
        own["placement.units"] = [SPARE]
    elif "npu" in units:  # which has the matmuls of the layers
        own |= {"placement.units": [unit for unit in units if unit != "npu"], "placement.kind": "matmuls", "placement.unit": SPARE}
    else:
        own["placement.units"] = [SPARE if unit == "gpu" else unit for unit in units]
    return own


def _model(rng, kind, engine):
    """Another family of as many layers with experts. A list of shares by layer is of a model that has experts in all of them."""
    if rng.random() < 0.5:
        return kind
    lists = "hot_by_layer" in engine.get("placement.splits", [{}])[0]
    return rng.choice([name for name, shape in (UNLIKE | OTHERS).items()
                       if bool(shape.experts) == (kind == "mixture") and not (lists and shape.dense_layers)])


def _scheme(rng, scheme):
    """Formats of the same contracts in place of a first one."""
    if scheme == "q4_0" and rng.random() < 0.4:
        return "w4_outliers"
    return rng.choice((scheme, "w8g64z", "w8z_channel")) if scheme == "q8_0" else scheme


def _memory(rng, model, engine):
    """Of all, or of the FFNs alone."""
    if rng.random() < 0.5:
        smallest, largest = (22, 26) if model in MODELS else (19.5, 23)
        return {"budget": f"{2 ** rng.uniform(smallest, largest) / 2 ** 20:.3f} MiB"}
    if engine["weights.kind"] != "dram" and rng.random() < 0.6:
        return {"ffn_in_dram": f"{rng.choice((0, 25, 50, 100))}%"}
    return {}


def _judged(rng, workload):
    """Samples in place of a batch, and who chooses among them. -> whether there are any. A reward model stays in DRAM beside the rest."""
    if rng.random() < 0.75:
        return False
    workload.pop("batch", None)
    if isinstance(workload["output_tokens"], list):
        workload["output_tokens"] = max(workload["output_tokens"])
    workload.setdefault("sampling", {"temperature": 1})
    if isinstance(workload.get("adapter"), list):
        workload["adapter"] = workload["adapter"][0]
    method = rng.choice(("best_of_n", "beam_search", "beam_search", "self_consistency"))
    scaling = {"method": method, "samples": rng.choice((2, 4) if method == "beam_search" else (2, 3, 4))}
    if method == "beam_search":
        scaling |= {"width": rng.choice((1, 2)), "step": {"max_tokens": rng.randint(1, 4)}}
    if method == "self_consistency":
        scaling["answer"] = "([a-z])"
    else:
        model = JUDGED["scorer"] | {"suffix": rng.choice(("", " so")), "incremental": rng.random() < 0.7,
                                    "placement": rng.choice(("cores", "cores", "model"))}
        scaling["scorer"] = rng.choice((model, model, {"kind": "log_probability", "over": rng.choice(("mean", "sum"))},
                                        {"kind": "regex", "patterns": ["a", "[0-9]"]}))
    workload["scaling"] = scaling
    return True


def _lora(rng, workload):
    """An adapter of ADAPTERS for each sequence, or none; the files are put in place where the model is."""
    if rng.random() > 0.3:
        return {}
    drawn = [rng.choice(("none", *ADAPTERS)) for _ in range(workload["batch"])]
    workload["adapter"] = drawn if rng.random() < 0.6 else drawn[0]
    return {"lora.order": rng.choice(("a_bx", "ab_x"))}


def _on_cores(rng, engine):
    """What only cores can do: share work by their rates."""
    if engine.get("placement.kind", "cores") != "cores" or "placement.unit" in engine or "placement.graph_units" in engine:
        return {}
    return {"placement.balance": rng.choice(("even", "rates"))}
