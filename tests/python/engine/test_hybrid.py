"""Hot neurons, heads and prefills on an accelerator beside the cores (PowerInfer-2, section 4.1): equal tokens, real overlap."""
import json
import random

import pytest
import vitro
from conftest import ROOT

CONFIGS = ROOT / "configs"
MODELS = CONFIGS / "models" / "embedded"
REFERENCE = json.loads((MODELS / "reference.json").read_text())
RELU, MIXTURE = "stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf"


def experiment(model, machine, share, hybrid=None, clusters=None, **workload):
    unit = "npu" if machine == "sim" else "cpu1"
    splits = [{"batch": 1, "hot": "25%", "attention": "50%", "head": "25%"}, {"batch": 4, "hot": "50%", "attention": "50%"}]
    cores = ["cpu1", "cpu2"] if machine == "sim" else ["cpu0"]
    return {
        "experiment": "hybrid", "machine": machine, "model": {"gguf": str(MODELS / model)},
        "device": str(CONFIGS / "devices" / "oneplus12.yaml"),
        "engine": {"policy": "neuron_cluster", "units": cores, "clusters": {"io_core": "cpu0"} | (clusters or {}),
                   "hybrid": {"unit": unit, "cluster": 16, "splits": splits} | (hybrid or {})},
        "workload": {"prompt": "Once upon a time", "output_tokens": 12, "stop_at_eos": False} | workload,
        "memory": {"ffn_in_dram": f"{share}%"},
    }


def decisions(folder):
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("share", [40, 75, 100])
@pytest.mark.parametrize("model", [RELU, MIXTURE])
def test_tokens_are_those_of_memory(model, share, machine):
    case = REFERENCE["models"][model]["greedy"][0]
    result = vitro.run(experiment(model, machine, share, prompt=case["prompt"]))
    assert result["tokens"] == case["ids"][:12]


def test_a_prompt_whose_rows_spread_over_experts_is_computed_sparsely():
    """Twenty rows with two experts each are more than a dense FFN would take as sparse, and too few for each of many experts."""
    prompt = "One day a little girl named Lily went to the park with her red ball and a big brown dog"
    in_memory = experiment(MIXTURE, "sim", 100, prompt=prompt)
    in_memory["engine"] = {"policy": "dense", "units": ["cpu0"]}
    assert vitro.run(experiment(MIXTURE, "sim", 75, prompt=prompt))["tokens"] == vitro.run(in_memory)["tokens"]


@pytest.mark.parametrize("hybrid", [{"prefill": False}, {"in_dram": "10%"}, {"cluster": 1}, {"cluster": 512},
                                    {"splits": [{"batch": 1, "hot": "100%", "attention": "100%", "head": "100%"}]},
                                    {"splits": [{"batch": 1, "hot": "0%", "attention": "33%"}]}])
def test_no_split_changes_a_token(hybrid):
    case = REFERENCE["models"][RELU]["greedy"][0]
    result = vitro.run(experiment(RELU, "sim", 75, hybrid, prompt=case["prompt"]))
    assert result["tokens"] == case["ids"][:12]


@pytest.mark.parametrize("machine", ["host", "sim"])
def test_hot_neurons_find_their_scales_wherever_they_stand(machine):
    tokens = []
    for layout in ("scales_inline", "scales_resident"):
        run = experiment("stories-reglu-3m.q4_0.gguf", machine, 75)
        run["engine"]["layout"] = layout
        tokens.append(vitro.run(run)["tokens"])
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("model, prompt", [
    (RELU, "Once upon a time"), (MIXTURE, "One day a little girl named Lily went to the park with her red ball")])
def test_a_prompt_leaves_the_hot_region_of_the_steps_after_it(model, prompt, tmp_path):
    """A short prompt is no dense one. It has more rows than the steps after it, and experts have some of them: a region that followed them
    would be given up and read anew."""
    splits = [{"batch": 1, "hot": "50%"}, {"batch": 4, "hot": "6.25%"}]
    vitro.run(experiment(model, "sim", 75, {"splits": splits}, prompt=prompt), out=tmp_path)
    resized = [d for d in decisions(tmp_path) if d["where"] == "hot"]
    assert resized and {d["kind"] for d in resized} == {"grow"}
    ffns = [d["what"].split(" block")[0] for d in resized]
    assert len(set(ffns)) == len(ffns), "each grows once"


def test_the_hot_region_shrinks_when_sequences_end(tmp_path):
    """Best-of-N: as sequences end, fewer neurons are worth the accelerator's while, and their blocks stay as cold ones."""
    splits = [{"batch": 1, "hot": "25%"}, {"batch": 4, "hot": "50%"}]
    run = experiment(RELU, "sim", 75, {"splits": splits}, batch=4, output_tokens=[4, 6, 8, 14])
    vitro.run(run, out=tmp_path)
    resized = [d for d in decisions(tmp_path) if d["where"] == "hot"]
    kinds = [d["kind"] for d in resized]
    layers = len({d["what"].split(" block")[0] for d in resized})
    assert layers > 1 and kinds == ["grow"] * 2 * layers + ["shrink"] * layers, "for the prompt, for four, and back for the last one"
    graphs = [d for d in decisions(tmp_path) if d["kind"] == "graph"]
    assert len(graphs) > 2  # one for each number of rows that a step had, and form of chain


WORDS = "One day a little girl named Lily went to the park with her red ball and saw a big brown dog under the tree .".split()


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.all) for seed in range(4, 8))])
def test_little_memory_changes_no_token_or_is_refused_before_the_run(machine, seed, tmp_path):
    """1 to 20 % of the FFNs in DRAM, prompts of one to about 64 tokens, every number of sequences: tokens of `dense`."""
    rng = random.Random(seed)
    splits = [{"batch": 1, "hot": f"{rng.randint(0, 100)}%", "attention": "50%"}, {"batch": 4, "hot": f"{rng.randint(0, 100)}%"}]
    hybrid = {"splits": splits, "cluster": rng.choice([1, 16, 64]), "prefill": rng.random() < 0.5}
    clusters = {"io_depth": rng.choice([1, 4, 32]), "staging": rng.choice(["64 KiB", "1 MiB"]), "dense_rows": rng.choice([4, 16, 64])}
    workload = {"prompt": " ".join(rng.choices(WORDS, k=rng.choice([1, 2, 5, 15, 30, 50]))), "batch": rng.choice([1, 2, 4]),
                "output_tokens": 6}
    in_memory = experiment(MIXTURE, machine, 100, **workload)
    in_memory["engine"] = {"policy": "dense", "units": ["cpu0"]}
    run = experiment(MIXTURE, machine, rng.randint(1, 20), hybrid, clusters, **workload)
    try:
        result = vitro.run(run, out=tmp_path / "run")
    except vitro.ConfigError:
        assert not (tmp_path / "run").exists()
    else:
        assert result["tokens"] == vitro.run(in_memory)["tokens"]


def busy(trace, track):
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e.get("ph") == "M" and e["name"] == "thread_name"}
    return [(e["ts"], e["ts"] + e["dur"], e["name"]) for e in trace if e.get("ph") == "X" and names[(e["pid"], e["tid"])] == track]


def overlap(a, b):
    return sum(max(0, min(ea, eb) - max(sa, sb)) for sa, ea, _ in a for sb, eb, _ in b)


def test_accelerator_and_cores_work_at_the_same_time(tmp_path):
    vitro.run(experiment(RELU, "sim", 100), out=tmp_path)
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    npu = busy(trace, "npu")
    assert any(name == "accumulate" for *_, name in npu)
    assert overlap(npu, busy(trace, "cpu1")) > 0.1 * sum(end - begin for begin, end, _ in npu)
