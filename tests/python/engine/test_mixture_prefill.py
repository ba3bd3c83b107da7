"""A mixture's prompt is read ahead, before its routers have chosen: whole layers, while attention runs (PowerInfer-2, section 4.1.1)."""
import json
import random

import pytest
import vitro
from conftest import ROOT
from test_hot_streams import overlap, tracks

MODELS = ROOT / "configs" / "models" / "embedded"
MIXTURE = MODELS / "stories-moe-6m.f16.gguf"
TEXT = (MODELS / "eval.txt").read_text()


def experiment(machine, *, share=30, characters=400, pipeline="cluster", dense_rows=4, staging="1 MiB", unit=None, chunk=128):
    engine = {"policy": "neuron_cluster", "units": ["cpu1", "cpu2"] if machine == "sim" else ["cpu0"], "prefill_chunk": chunk,
              "clusters": {"io_core": "cpu0", "pipeline": pipeline, "dense_rows": dense_rows, "staging": staging}}
    if unit:
        engine["hybrid"] = {"unit": unit, "cluster": 16, "splits": [{"batch": 1, "hot": "25%", "attention": "50%"}]}
    return {"experiment": "prompt", "machine": machine, "device": str(ROOT / "configs/devices/oneplus12.yaml"),
            "model": {"gguf": str(MIXTURE)}, "engine": engine, "memory": {"ffn_in_dram": f"{share}%"},
            "workload": {"prompt": TEXT[2000:2000 + characters], "output_tokens": 4, "stop_at_eos": False}}


def dense(**how):
    given = experiment("sim", **how)
    return vitro.run(given | {"engine": {"policy": "dense", "units": ["cpu0"]}, "memory": {}})["tokens"]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.all) for seed in range(4, 16))])
def test_tokens_are_those_of_memory(machine, seed):
    """Short prompts leave experts out, which were read ahead for nobody."""
    rng = random.Random(seed)
    how = {"characters": rng.choice([30, 45, 60, 120, 400]), "dense_rows": rng.choice([1, 2, 4, 16])}
    more = {"share": rng.choice([5, 30, 80]), "staging": rng.choice(["64 KiB", "1 MiB", "16 MiB"]), "chunk": rng.choice([8, 32, 128]),
            "unit": rng.choice([None, "npu" if machine == "sim" else "cpu1"])}
    assert vitro.run(experiment(machine, **how, **more))["tokens"] == dense(**how), (how, more)


def prompt_of(folder):
    """-> (reads of the prompt, its attention)."""
    spans = tracks(folder)
    steps = spans["policy/steps"]
    end = max(e for _, e, name in steps if name.startswith("prompt"))
    begin = min(s for s, _, name in steps if name.startswith("prompt"))
    reads = [span for track, own in spans.items() if track.startswith("storage/") for span in own if begin <= span[0] < end]
    return reads, [span for span in steps if span[2] == "part attention" and begin <= span[0] < end]


def test_reads_run_beside_the_attention_before_the_router(tmp_path):
    shares = {}
    for pipeline in ("cluster", "matrix"):  # the second never reads while it computes something else
        out = tmp_path / pipeline
        result = vitro.run(experiment("sim", pipeline=pipeline), out=out)
        reads, attention = prompt_of(out)
        shares[pipeline] = overlap(reads, attention), result["metrics"]["prefill_tokens_per_s"]
    assert shares["matrix"][0] == 0 and shares["cluster"][0] > 0
    assert shares["cluster"][1] > shares["matrix"][1]
