"""Faults that lose nothing change no decision: host and sim decide alike under one plan, and as without it."""
import random

import pytest
import vitro
from conftest import ROOT
from drawn_models import ADAPTERS, Files
from families import SHAPES
from vitro.torture import draw, sections

QUICKSTART = ROOT / "experiments/quickstart.yaml"
MIXTURE = {"model": str(ROOT / "configs/models/embedded/stories-moe-6m.f16.gguf")}
ENGINES = {
    "paged": {"engine.policy": "mmap", "memory.budget": "6 MiB"},
    "clusters": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "30%"},
    "keys and values in flash": {"engine.kv_dram_tokens": 4, "engine.kv_block_tokens": 4},
    "streamed": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "30%", "engine.clusters.pipeline": "none"},
}
HARMLESS = [{"fault": "latency", "at": 2, "count": 6, "delay": "1 ms"}, {"fault": "reorder", "at": 10, "count": 12, "delay": "300 us"},
            {"fault": "stall", "at": 30, "count": 3, "delay": "1 ms"}, {"fault": "queue_full", "at": 40, "count": 8},
            {"fault": "slow_launch", "at": 20, "count": 5, "delay": "200 us"}]
FEW, ALL = 4, 40


def split(rng, engine, mixture):
    """A core in place of the accelerator, with shares that differ by layer and expert, some of whose neurons do not stay."""
    if rng.random() < 0.5:
        return {}
    engine = {"ffn.kind": "dense"} | engine | {"placement.splits": [{"batch": 2, "hot": "50%", "attention": "25%", "head": "25%"}]}
    shares = engine | draw.by_layer(rng, engine, 3 if mixture else 4, 8 if mixture else 1)
    return {"placement.unit": "cpu1", "placement.splits": shares["placement.splits"]}


def contracts(rng):
    """-> the format of weights, and in which contracts they and attention are computed."""
    scheme = rng.choice((*draw.SCHEMES, "w8g64z", "w8z_channel", "w4_outliers"))
    engine = draw.numerics(rng, scheme)
    engine |= draw.exact_tables(rng, engine) | sections.contracts(rng, scheme, engine) | sections.attention(rng)
    return scheme, engine | {"products.decode_rows": rng.randint(1, 4)}


def family(rng, mixture, engine):
    """Of as many layers with experts: a list of shares by layer is of a model that has experts in all of them."""
    lists = "hot_by_layer" in engine.get("placement.splits", [{}])[0]
    alike = [name for name, shape in SHAPES.items() if bool(shape.experts) == mixture and not (lists and shape.dense_layers)]
    return rng.choice(alike) if rng.random() < 0.6 else "mixture" if mixture else "dense"


def drawn(seed, files):
    """-> changes of the experiment, and a schedule of faults that lose nothing. The virtual machine's cases are drawn with these functions;
    what is left out here is what may differ by time: a share of experts that follows from prices, and room that a budget happens to
    leave."""
    rng = random.Random(f"two machines {seed}")
    mixture = rng.random() < 0.4
    weights = rng.choice(("paged", "streamed", "bundles"))
    engine = draw.bundles(rng) | {"ffn.kind": "clusters"} if weights == "bundles" else {"weights.kind": weights}
    engine |= draw.kv(rng) | draw.kv_place(rng) | draw.together(rng, engine) | {"prefill_chunk": rng.randint(1, 16)}
    if engine.get("kv.keep") == "budget":
        engine["kv.keep"] = "recent"
    engine["weights.read_ahead"] = "16 KiB"
    engine |= draw.expert_cache(rng, "mixture" if mixture else "dense", engine)
    engine |= draw.activations(random.Random(f"activations {seed}")) | split(random.Random(f"split {seed}"), engine, mixture)
    workload = {"batch": rng.randint(1, 3)}
    share = rng.choice((25, 40, 60))
    kinds = [{"fault": fault, "at": rng.randint(0, 60), "count": rng.randint(1, 20)} for fault in
             ("latency", "reorder", "stall", "queue_full", "slow_launch") for _ in range(rng.randint(0, 2))]
    for fault in kinds:
        if fault["fault"] != "queue_full":
            fault["delay"] = f"{rng.randint(20, 1500)} us"
    scheme, own = contracts(random.Random(f"contracts {seed}"))
    engine |= own | draw.coded(random.Random(f"coded {seed}"), engine)
    model = family(random.Random(f"family {seed}"), mixture, engine)
    if model in SHAPES and engine["weights.kind"] == "paged":
        share = 60  # less is no slice of a matrix and its read-ahead
    changes = {"model.gguf": str(files.weights(model, scheme))}
    changes |= {"memory.ffn_in_dram": f"{share}%"} if engine["weights.kind"] != "dram" else {}
    engine |= lora(random.Random(f"lora {seed}"), workload, files, model)
    changes |= {f"engine.{key}": value for key, value in engine.items()} | {f"workload.{key}": value for key, value in workload.items()}
    return changes, kinds or [HARMLESS[0]]


def lora(rng, workload, files, model):
    """An adapter for each sequence, or none."""
    if rng.random() < 0.7:
        return {}
    workload["adapter"] = [rng.choice(("none", *ADAPTERS)) for _ in range(workload["batch"])]
    return {"lora.order": rng.choice(("a_bx", "ab_x")), "lora.adapters": files.adapters(model)}


def decided(machine, changes, folder, faults):
    units = ["cpu0"] if "engine.placement.unit" in changes else ["cpu0", "cpu1"]
    changes = changes | {"workload.output_tokens": 8, "engine.units": units}
    changes |= {"faults": {"entries": faults}} if faults else {}
    result = vitro.run(QUICKSTART, machine=machine, overrides=changes, out=folder)
    return result, (folder / "decisions.jsonl").read_text()


def decides_alike(changes, faults, folder):
    calm, expected = decided("sim", changes, folder / "calm", [])
    for machine in ("sim", "host"):
        struck, log = decided(machine, changes, folder / machine, faults)
        assert struck.tokens == calm.tokens, (machine, changes, faults)
        assert struck.get("sequences") == calm.get("sequences"), (machine, changes, faults)
        assert log == expected, (machine, changes, faults)
        said = " ".join(struck.data["notes"])
        assert "faults" in said and "struck nothing" not in said, (machine, changes, faults)
    assert expected.count("\n") > 10


@pytest.fixture(scope="module")
def files(tmp_path_factory, has_native):
    return Files(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("engine", ENGINES)
def test_harmless_faults_change_no_decision_on_either_machine(native, tmp_path, engine):
    decides_alike(ENGINES[engine], HARMLESS, tmp_path)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.all] if seed >= FEW else []) for seed in range(ALL)])
def test_drawn_engines_decide_alike_under_drawn_schedules(native, tmp_path, files, seed):
    changes, faults = drawn(seed, files)
    decides_alike(changes, faults, tmp_path)
