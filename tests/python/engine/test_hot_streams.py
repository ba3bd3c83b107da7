"""Hot neurons that are read for every step while attention runs (PowerInfer-2, sections 4.4 and 5)."""
import json
import random

import pytest
import vitro
from conftest import ROOT

MODELS = ROOT / "configs" / "models" / "embedded"
REFERENCE = json.loads((MODELS / "reference.json").read_text())
RELU, MIXTURE = "stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf"
DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"


def experiment(machine, splits, *, share=60, model=RELU, hybrid=None, engine=None, **workload):
    cores = ["cpu1", "cpu2"] if machine == "sim" else ["cpu0"]
    return {
        "experiment": "streams", "machine": machine, "model": {"gguf": str(MODELS / model)}, "device": str(DEVICE),
        "engine": {"policy": "neuron_cluster", "units": cores, "clusters": {"io_core": "cpu0"},
                   "hybrid": {"unit": "npu" if machine == "sim" else "cpu1", "cluster": 16, "splits": splits} | (hybrid or {})} |
                  (engine or {}),
        "workload": {"prompt": REFERENCE["models"][RELU]["greedy"][0]["prompt"], "output_tokens": 12, "stop_at_eos": False} | workload,
        "memory": {"ffn_in_dram": f"{share}%"},
    }


@pytest.fixture(scope="module")
def ids():
    return REFERENCE["models"][RELU]["greedy"][0]["ids"][:12]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.all) for seed in range(3, 10))])
def test_tokens_are_those_of_memory(machine, seed, ids):
    rng = random.Random(seed)
    hot, layout = rng.randint(10, 100), rng.choice(["bundles", "bundles_two_phase"])
    splits = [{"batch": 1, "hot": f"{hot}%", "streamed": f"{rng.randint(0, min(hot, 20))}%", "attention": "50%"}]
    given = experiment(machine, splits, share=rng.choice([25, 40, 75]), engine={"layout": layout})
    assert vitro.run(given)["tokens"] == ids, (splits, layout)


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.all) for seed in range(4, 12))])
def test_experts_take_turns_and_their_tokens_are_those_of_memory(machine, seed):
    rng = random.Random(f"experts {seed}")
    case = REFERENCE["models"][MIXTURE]["greedy"][0]
    hot = rng.randint(10, 100)
    splits = [{"batch": 1, "hot": f"{hot}%", "streamed": f"{rng.randint(5, max(5, min(hot, 25)))}%", "attention": "50%"}]
    more = {"engine": {"weights": {"experts": {"neurons_ahead": "64 KiB"}}}} if rng.random() < 0.5 else {}
    given = experiment(machine, splits, share=rng.choice([25, 40, 75]), model=MIXTURE, prompt=case["prompt"], **more)
    assert vitro.run(given)["tokens"] == case["ids"][:12], splits


def test_an_expert_that_is_chosen_is_read_and_no_other(tmp_path):
    splits = [{"batch": 1, "hot": "100%", "streamed": "25%"}]
    engine = {"prefill_chunk": 4, "record": str(tmp_path / "r.vtrc")}
    result = vitro.run(experiment("sim", splits, share=95, model=MIXTURE, engine=engine), out=tmp_path)
    decided = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    streams = [d["what"].split(" block ")[0] for d in decided if d["kind"] == "stream"]
    recording = vitro.Recording.load(tmp_path / "r.vtrc")
    routed = {layer: recording.experts(layer)[1] for layer in recording.layers}
    rows = len(routed[0])
    prompt = rows - 11  # each token but the last is one more row
    steps = [slice(at, min(at + 4, prompt)) for at in range(0, prompt, 4)] + [slice(at, at + 1) for at in range(prompt, rows)]
    assert streams == [f"layer {layer} expert {expert}" for step in steps for layer in routed
                       for expert in sorted(set(routed[layer][step].ravel().tolist()))]
    assert result["metrics"]["flash_bytes_read"]["decode"] > 0


def tracks(folder):
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e.get("ph") == "M" and e["name"] == "thread_name"}
    groups = {e["pid"]: e["args"]["name"].split(": ")[-1] for e in trace if e.get("ph") == "M" and e["name"] == "process_name"}
    spans = {}
    for e in trace:
        if e.get("ph") == "X":
            track = f"{groups[e['pid']]}/{names[(e['pid'], e['tid'])]}"
            spans.setdefault(track, []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
    return spans


def overlap(a, b):
    return sum(max(0, min(ea, eb) - max(sa, sb)) for sa, ea, *_ in a for sb, eb, *_ in b)


def decode_of(folder):
    """Of decode steps -> (reads, attention, sums over hot neurons, the last calls of their graphs)."""
    spans = tracks(folder)
    begin = min(s for s, _, name in spans["policy/steps"] if name.startswith("decode"))
    late = {track: [span for span in own if span[0] >= begin] for track, own in spans.items()}
    reads = [span for track, own in late.items() if track.startswith("storage/") for span in own]
    unit = "units/npu" if "units/npu" in late else "units/cpu1"
    return (reads, [span for span in late["policy/steps"] if span[2] == "part attention"],
            [span for span in late[unit] if span[2].startswith("accumulate")])


@pytest.mark.parametrize("machine", ["host", "sim"])
def test_reads_begin_when_an_ffn_is_through_and_run_beside_attention(machine, tmp_path):
    """Nothing is cold here, so that every read of a decode step is a streamed cluster."""
    splits = [{"batch": 1, "hot": "100%", "streamed": "12.5%", "attention": "50%"}]
    result = vitro.run(experiment(machine, splits, share=95), out=tmp_path)
    reads, attention, graphs = decode_of(tmp_path)
    decisions = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert reads and any(d["kind"] == "stream" for d in decisions)
    assert graphs and overlap(reads, graphs) == 0, "one buffer: it is filled when an FFN is through, and the next waits until it is full"
    assert overlap(reads, attention) > (0.5 if machine == "sim" else 0) * sum(end - begin for begin, end, _ in reads)
    assert result["metrics"]["flash_bytes_read"]["decode"] > 0


def test_a_step_reads_what_is_streamed_and_no_more():
    bytes_read = {}
    for streamed in (12.5, 25):
        splits = [{"batch": 1, "hot": "100%", "streamed": f"{streamed}%"}]
        metrics = vitro.run(experiment("sim", splits, share=95))["metrics"]
        bytes_read[streamed] = metrics["flash_bytes_read"]["decode"]
    assert bytes_read[25] == 2 * bytes_read[12.5] > 0


def refusal(given):
    with pytest.raises(vitro.ConfigError) as error:
        vitro.run(given)
    return str(error.value)


def test_what_can_not_be_is_refused():
    message = refusal(experiment("sim", [{"batch": 1, "hot": "10%", "streamed": "20%"}]))
    assert "streamed" in message and "more than the 10% that are hot" in message
    whole = experiment("sim", [{"batch": 1, "hot": "20%", "streamed": "20%"}])
    whole["engine"] |= {"ffn": {"kind": "dense"}, "weights": {"kind": "streamed"}}
    assert "streamed: is of neurons that are read one by one" in refusal(whole)
    message = refusal(experiment("sim", [{"batch": 1, "hot": "100%", "streamed": "100%"}], share=10))
    assert "engine.placement.splits.streamed" in message and "need room" in message
