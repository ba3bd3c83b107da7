"""A plan for keys and values in flash runs: tokens are those of a run without one, and memory stays within what it was planned for."""
import json

import pytest
import vitro
from conftest import ROOT
from plans import PHONE, phone
from vitro.plan.planner import make_plan
from vitro.plan.text import text_of

MODELS = ROOT / "configs" / "models" / "embedded"
RELU = MODELS / "stories-reglu-3m.f16.gguf"
KEPT = {"dram_tokens": 16, "block_tokens": 8}
BUDGET_MIB = 69  # a little more than a plan keeps free for the staging of any model


@pytest.fixture(scope="module")
def recording(tmp_path_factory, has_native):
    folder = tmp_path_factory.mktemp("recording")
    (folder / "text.txt").write_text((MODELS / "eval.txt").read_text()[:1500])
    vitro.perplexity(RELU, folder / "text.txt", overrides={"engine.record": str(folder / "r.vtrc")})
    return folder / "r.vtrc"


@pytest.fixture(scope="module")
def bench(has_native):
    """Of the phone, with what it has answered to plans of this file."""
    return phone(RELU)


def plan_for(recording, bench, **kept):
    overrides = [f"memory.budget={BUDGET_MIB} MiB"] + [f"engine.kv.{key}={value}" for key, value in kept.items()]
    return make_plan(RELU, device=PHONE, profile=recording, cores=["cpu1", "cpu2"], bench=bench, overrides=overrides)


def run(engine, machine="sim"):
    case = json.loads((MODELS / "reference.json").read_text())["models"][RELU.name]["greedy"][0]
    return vitro.run({"experiment": "planned", "machine": machine, "device": str(PHONE), "model": {"gguf": str(RELU)},
                      "engine": {"kv": KEPT} | engine, "memory": {"budget": f"{BUDGET_MIB} MiB"},
                      "workload": {"prompt": case["prompt"], "output_tokens": 60, "stop_at_eos": False}})


def test_a_plan_for_keys_and_values_in_flash_runs_within_its_budget(recording, bench, tmp_path):
    plan = plan_for(recording, bench, **KEPT)
    (tmp_path / "plan.yaml").write_text(text_of(plan))
    planned = run({"plan": str(tmp_path / "plan.yaml")})
    expected = run({"policy": "dense", "kv": {}})
    assert planned.tokens == expected.tokens and len(planned.tokens) == 60
    moved = planned.metrics["kv_flash"]
    assert moved["bytes_written"] > 0 and moved["bytes_read"] > 0
    peaks = planned["peak_memory"]
    assert peaks["kv"] < expected["peak_memory"]["kv"]
    assert sum(peaks.values()) <= BUDGET_MIB * 2**20 and planned.metrics["peak_memory_bytes"] <= BUDGET_MIB * 2**20
    splits = planned["experiment_resolved"]["engine"]["placement"]["splits"]
    assert [split["hot"] for split in splits] == [split["hot"]["value"] for split in plan["engine"]["hybrid"]["splits"]]


def test_what_keys_and_values_leave_free_the_plan_gives_to_neurons(recording, bench):
    """As many hot neurons as the same budget has room for beside keys and values in DRAM, or more."""
    kept, all_in_dram = (plan_for(recording, bench, **keys)["memory"] for keys in (KEPT, {}))
    assert float(str(kept["ffn_in_dram"]).rstrip("%")) > float(str(all_in_dram["ffn_in_dram"]).rstrip("%"))
