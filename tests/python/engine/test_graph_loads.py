"""Graphs of the NPU are loaded a step ahead (PowerInfer-2, section 4.1.3): what waits, when each was loaded, and equal tokens."""
import json

import pytest
import vitro
from conftest import ROOT
from plans import plan_of_two_layers, two_layers
from test_hybrid import MIXTURE, RELU, experiment
from vitro.plan.text import text_of

SHAPE = {"family": "llama", "name": "two layers of 7B", "layers": 2, "width": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336,
         "vocab": 32000, "context": 512, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 256}
ENDS = [4, 6, 8, 14]  # tokens of four sequences


def ending(graphs="ahead", **more):
    """Sequences of a batch that end one by one, on cores and NPU. All in DRAM: a step waits for nothing else."""
    splits = [{"batch": batch, "hot": hot, "attention": "50%", "head": "50%"} for batch, hot in ((1, "25%"), (2, "37.5%"), (4, "50%"))]
    return {"experiment": "ending", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"),
            "model": {"format": "q4_0", "shape": SHAPE},
            "engine": {"policy": "neuron_cluster", "units": ["cpu1", "cpu2", "cpu3", "cpu4"], "clusters": {"io_core": "cpu0"},
                       "numerics": False, "activations": "int8", "kv_format": "f16", "profile": {"fraction": "12%", "skew": 0.8},
                       "hybrid": {"unit": "npu", "cluster": 224, "splits": splits}, "placement": {"graphs": graphs}},
            "workload": {"prompt_tokens": 32, "output_tokens": ENDS, "batch": len(ENDS), "stop_at_eos": False, "seed": 1}} | more


def loads(folder):
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return [e for e in events if e.get("ph") == "X" and e["name"].startswith("load ")]


def test_no_launch_of_a_decode_step_waits_for_a_graph(tmp_path):
    ahead, needed = (vitro.run(ending(graphs)) for graphs in ("ahead", "needed"))
    assert ahead["tokens"] == needed["tokens"]
    before, now = needed["metrics"]["graph_loads"], ahead["metrics"]["graph_loads"]
    assert before["waits"] >= 16 and before["waited_ms"] > 7, "attention, FFN and head at four batch sizes, 0.5 ms each"
    prompt = vitro.run(ending(workload=ending()["workload"] | {"output_tokens": 1}))["metrics"]["graph_loads"]
    assert (now["waits"], now["waited_ms"]) == (prompt["waits"], prompt["waited_ms"]), "the prompt's alone, which has no step before it"
    times, sizes = ahead["steps"]["latency_ms"], ahead["steps"]["sequences"]
    changes = [i for i in range(1, len(sizes)) if sizes[i] != sizes[i - 1]]
    assert len(changes) == 3
    for i in changes:
        assert times[i] < times[i + 1] + 0.2 < needed["steps"]["latency_ms"][i] - 1
    assert ahead["metrics"]["decode_tokens_per_s"] > needed["metrics"]["decode_tokens_per_s"]


def test_experts_and_their_sum_are_loaded_ahead_too():
    """A graph for each number of rows that may meet an expert."""
    found = {}
    for graphs in ("ahead", "needed"):
        run = ending(graphs)
        run["model"]["shape"] = SHAPE | {"family": "mixtral", "experts": 8, "experts_used": 2, "ffn": 3584}
        found[graphs] = vitro.run(run)
        run["workload"] |= {"output_tokens": 1}
        found[graphs, "prompt"] = vitro.run(run)
    waits = {key: result["metrics"]["graph_loads"]["waits"] for key, result in found.items()}
    assert waits["ahead"] == waits["ahead", "prompt"] and waits["needed"] > waits["needed", "prompt"] + 20
    assert found["ahead"]["sequences"] == found["needed"]["sequences"]


def test_a_plan_says_which_graphs_are_loaded_and_when(tmp_path, tmp_path_factory):
    """Batch 1 before the first token, others while the step before theirs runs, and of sizes that the plan does not list none ahead."""
    model, plan = two_layers(tmp_path), plan_of_two_layers(tmp_path_factory)
    assert [graph["loaded"] for graph in plan["graphs"]] == ["from_start"] + ["at_change"] * 3
    plan["graphs"] = [graph for graph in plan["graphs"] if graph["batch"] != 3]
    (tmp_path / "plan.yaml").write_text(text_of(plan))
    run = ending() | {"model": str(model),
                      "engine": {"plan": str(tmp_path / "plan.yaml"), "function": "draw", "kv_format": "f16"}}
    result = vitro.run(run, out=tmp_path / "run")
    found = {}
    for event in loads(tmp_path / "run"):
        found.setdefault(event["args"]["detail"].removeprefix("ahead, for "), []).append(event["ts"])
    assert {"decode_b1", "decode_b2", "decode_b4", "prompt of 32 rows"} <= set(found)
    needed = [event["name"] for event in loads(tmp_path / "run") if event["args"]["detail"] == "needed by a launch"]
    assert all("batch 32" in name or "batch 3 " in name for name in needed) and any("batch 3 " in name for name in needed)
    assert not any("decode of" in name for name in found), "three rows are not listed"
    first = min(found["prompt of 32 rows"])
    assert max(found["decode_b1"]) < first < min(found["decode_b4"] + found["decode_b2"])
    assert result["metrics"]["graph_loads"]["waits"] >= len(needed)


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("model", [RELU, MIXTURE])
@pytest.mark.parametrize("graphs", ["ahead", "needed", [{"batch": 2}]])
def test_tokens_do_not_depend_on_when_graphs_are_loaded(model, machine, graphs):
    run = experiment(model, machine, 75, batch=3, output_tokens=[3, 8, 5])
    in_memory = run | {"engine": {"policy": "dense", "units": ["cpu0"]}, "memory": {}}
    wanted = vitro.run(in_memory)["sequences"]
    run["engine"]["placement"] = {"graphs": graphs}
    assert vitro.run(run)["sequences"] == wanted


def test_a_core_that_offloads_loads_the_graphs_of_the_size_that_comes(tmp_path):
    """Weights are in these graphs, so each layer has its own, for each number of rows."""
    found = {}
    for graphs in ("ahead", "needed"):
        run = ending(graphs)
        run["engine"] = {"policy": "dense", "units": ["cpu0"], "numerics": False, "activations": "int8", "kv_format": "f16",
                         "placement": {"kind": "matmuls", "unit": "npu", "graphs": graphs}}
        found[graphs] = vitro.run(run)
    before, now = (found[graphs]["metrics"]["graph_loads"] for graphs in ("needed", "ahead"))
    assert found["ahead"]["sequences"] == found["needed"]["sequences"]
    assert now["loads"] == before["loads"], "none that is not launched"
    assert now["waits"] < before["waits"] / 2 and now["waited_ms"] < before["waited_ms"] / 2
