"""workload.warmup_tokens: what decoding is measured by, once caches have settled."""
import shutil

import gguf
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError

OFFLOAD = ROOT / "experiments" / "offload.yaml"
SHORT = {"workload.output_tokens": 13, "workload.prompt_tokens": 4}


def test_metrics_are_of_the_steps_after_it_and_nothing_else_changes(native):
    whole = vitro.run(OFFLOAD, overrides=SHORT)
    warm = vitro.run(OFFLOAD, overrides=SHORT | {"workload.warmup_tokens": 5})
    assert warm["event_hash"] == whole["event_hash"] and warm["steps"] == whole["steps"]
    steps = whole["steps"]
    latency = steps["latency_ms"][5:]
    assert warm.metric("token_latency_ms.mean") == pytest.approx(sum(latency) / 7)
    assert warm.metrics["decode_tokens_per_s"] == pytest.approx(7e3 / sum(latency))
    assert warm.metrics["cache_hit_rate"] == pytest.approx(sum(steps["hits"][5:]) / sum(steps["accesses"][5:]))
    read = warm.metrics["flash_bytes_read"]
    assert read["warmup"] == sum(steps["bytes_read"][:5]) and read["decode"] == sum(steps["bytes_read"][5:])
    assert read["warmup"] + read["decode"] == whole.metrics["flash_bytes_read"]["decode"]
    joules = [run.metrics["energy_j_per_token"] * count for run, count in ((whole, 12), (warm, 7))]
    assert 0 < joules[1] < joules[0]
    parts = [sum(run.metrics["decode_parts_ms"].values()) for run in (whole, warm)]
    assert parts[1] == pytest.approx(sum(latency), rel=0.01) and parts[0] > parts[1]
    assert warm.metrics["ttft_ms"] == whole.metrics["ttft_ms"]


def test_an_answer_that_ends_within_it_says_so(native, tmp_path):
    prompt = {"workload.prompt": "Once upon a time", "workload.output_tokens": 12}
    quickstart = ROOT / "experiments/quickstart.yaml"
    tokens = vitro.run(quickstart, overrides=prompt).tokens
    found = vitro.run(quickstart, overrides=prompt | {"model": _ends_after(tmp_path, tokens[4]), "workload.warmup_tokens": 8})
    assert len(found.tokens) < 8 and found.metrics["decode_tokens_per_s"] > 0
    assert any("ended within the 8 tokens of warm-up" in note for note in found["notes"])


def _ends_after(tmp_path, answer_token):
    """The quickstart's model, for which this token ends a text."""
    shutil.copy(ROOT / "configs/models/embedded/stories-reglu-3m.q8_0.gguf", tmp_path / "m.gguf")
    reader = gguf.GGUFReader(tmp_path / "m.gguf", "r+")
    end = reader.fields["tokenizer.ggml.eos_token_id"]
    end.parts[end.data[0]][0] = answer_token
    reader.data.flush()
    return str(tmp_path / "m.gguf")


def test_an_answer_that_ends_with_its_last_step_says_so(native, tmp_path):
    prompt = {"workload.prompt": "Once upon a time", "workload.output_tokens": 12}
    quickstart = ROOT / "experiments/quickstart.yaml"
    tokens = vitro.run(quickstart, overrides=prompt).tokens
    model = _ends_after(tmp_path, tokens[4])
    steps = len(vitro.run(quickstart, overrides=prompt | {"model": model})["steps"]["latency_ms"])
    found = vitro.run(quickstart, overrides=prompt | {"model": model, "workload.warmup_tokens": steps})
    assert 0 < steps < 11 and found.metrics["decode_tokens_per_s"] > 0
    assert any(f"ended within the {steps} tokens of warm-up" in note for note in found["notes"])


def test_decode_metrics_of_an_expert_cache_are_of_the_steps_after_it(native):
    def metrics(steps):
        return vitro.run({"experiment": "experts", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"),
                          "model": {"gguf": str(ROOT / "configs/models/embedded/stories-moe-6m.f16.gguf")},
                          "engine": {"policy": "dense", "threads": 2, "weights": {"kind": "experts"}}, "memory": {"ffn_in_dram": "30%"},
                          "workload": {"prompt": "Once upon a time", "output_tokens": 12, "stop_at_eos": False,
                                       "warmup_tokens": steps}}).metrics["expert_cache"]
    whole, warm = metrics(0), metrics(6)
    assert warm["loads"] == whole["loads"] and warm["bytes_read"] == whole["bytes_read"]
    assert 0 <= warm["decode_read_ms"] < whole["decode_read_ms"]


@pytest.mark.all
def test_the_optimal_hit_rate_is_of_all_accesses_or_none(native):
    bound = SHORT | {"engine.weights.report_bound": True}
    assert vitro.run(OFFLOAD, overrides=bound).metrics["belady_hit_rate"] is not None
    assert vitro.run(OFFLOAD, overrides=bound | {"workload.warmup_tokens": 5}).metrics["belady_hit_rate"] is None


@pytest.mark.parametrize("more, said", [({"workload.warmup_tokens": 12}, "leaves none of workload.output_tokens: 13"),
                                        ({"workload.warmup_tokens": -1}, "warmup_tokens"),
                                        ({"workload.warmup_tokens": 2, "workload.scaling": '{samples: 2}'}, "scaling")])
def test_what_can_not_be_measured_is_refused(native, more, said):
    with pytest.raises(ConfigError, match=said):
        vitro.resolve(OFFLOAD, overrides=SHORT | more)
