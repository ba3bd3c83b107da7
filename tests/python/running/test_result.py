"""A result as tables, on a notebook's page, and read from a file again."""
import json

import pytest
import vitro
from conftest import EXPERIMENT, ROOT
from vitro.base.metric_units import unit_of

QUICKSTART = ROOT / "experiments/quickstart.yaml"


@pytest.fixture(scope="module")
def paged(has_native):
    return vitro.run(QUICKSTART, overrides={"engine.policy": "mmap", "memory.budget": "6 MiB", "workload.output_tokens": 6})


def test_the_steps_add_up_to_the_metrics(paged):
    steps = paged.to_frame("steps")
    assert list(steps["step"]) == [1, 2, 3, 4, 5] and (steps["sequences"] == 1).all()
    assert steps["bytes_read"].sum() == paged.metric("flash_bytes_read.decode") > 0
    assert steps["hits"].sum() / steps["accesses"].sum() == pytest.approx(paged.metric("cache_hit_rate"), rel=1e-12)
    assert steps["latency_ms"].mean() == pytest.approx(paged.metric("token_latency_ms.mean"), rel=1e-12)
    assert steps["tokens_per_s"].iloc[0] == pytest.approx(1e3 / steps["latency_ms"].iloc[0])


def test_the_parts_of_energy_add_up(paged):
    energy = paged.to_frame("energy")
    assert list(energy["part"]) == ["base", "units", "dram", "flash"] and (energy["joules"] > 0).all()
    assert energy["joules"].sum() == pytest.approx(5 * paged.metric("energy_j_per_token"), rel=1e-12)
    assert energy["share"].sum() == pytest.approx(1)


def test_what_units_drew_adds_up_to_the_same_energy(paged):
    units = paged.to_frame("units")
    assert list(units["unit"][-3:]) == ["dram", "flash", "base"] and {"cpu0", "cpu1"} < set(units["unit"])
    assert units["joules"].sum() == pytest.approx(paged.to_frame("energy")["joules"].sum(), rel=1e-12)
    assert units["share"].sum() == pytest.approx(1)
    kinds = paged.metrics["energy_by_kind_j"]
    assert kinds["cores"] == pytest.approx(units[units["unit"].str.startswith("cpu")]["joules"].sum(), rel=1e-12)
    assert kinds["cores"] == pytest.approx(paged.metric("energy_parts_j.units"), rel=1e-12) and kinds["npu"] == 0


def test_metrics_have_units_and_one_row_has_them_all(paged):
    table = paged.to_frame("metrics").set_index("metric")
    assert table.loc["decode_tokens_per_s", "unit"] == "tokens/s" and table.loc["flash_bytes_read.decode", "unit"] == "B"
    row = paged.to_frame()
    assert len(row) == 1 and row["token_latency_ms.p99"][0] == paged.metric("token_latency_ms.p99") and row["policy"][0] == "mmap"


@pytest.mark.parametrize("metric, unit", [
    ("ttft_ms", "ms"), ("token_latency_ms.p99", "ms"), ("energy_j_per_token", "J/token"), ("energy_parts_j.dram", "J"),
    ("mean_power_w", "W"),
    ("cache_hit_rate", "share"), ("experts.padded_share", "share"), ("dram_bandwidth_gb_per_s", "GB/s"), ("cpu_busy_s", "s"),
    ("decode_by_batch.batch_4.tokens_per_s", "tokens/s"), ("product_us.mean", "us"), ("lora.macs", ""), ("kv_flash.stall_ms", "ms"),
    ("prefill_parts_ms.ffn", "ms"), ("peak_memory_bytes", "B"), ("storage_submissions_per_token", "1/token"), ("cpu_cycles", "cycles")])
def test_the_unit_follows_from_the_name(metric, unit):
    assert unit_of(metric) == unit


def test_parts_that_a_run_lacks_are_empty_tables(fake):
    result = vitro.run(EXPERIMENT)
    assert list(result.to_frame("samples").columns) == ["text", "score", "log_probability", "answer", "tokens", "chosen"]
    assert all(result.to_frame(part).empty for part in ("samples", "energy", "units", "steps", "expectations"))
    with pytest.raises(vitro.ConfigError, match="to_frame: 'nothing' .expected one of: run, metrics"):
        result.to_frame("nothing")


def test_samples_and_expectations(fake):
    result = vitro.run(EXPERIMENT, overrides={"expect": {"fast": {"metric": "decode_tokens_per_s", "min": 0.001}}})
    scored = vitro.Result(result.data | {"scaling": {"chosen": 1, "samples": [
        {"score": 1.0, "log_probability": -3.0, "answer": None, "tokens": [1, 2], "text": text} for text in ("a", "b")]}})
    assert list(scored.to_frame("samples")["chosen"]) == [False, True] and list(scored.to_frame("samples")["tokens"]) == [2, 2]
    assert list(result.to_frame("expectations")["status"]) == ["ok"]
    assert "expect fast" in result._repr_html_()


def test_a_page_shows_units_and_escapes_texts(fake):
    page = vitro.Result(vitro.run(EXPERIMENT).data | {"policy": "<b>"})._repr_html_()
    assert "tokens/s" in page and "&lt;b&gt;" in page and "<b>" not in page


def test_a_result_is_read_again(fake, tmp_path):
    result = vitro.run(EXPERIMENT, out=tmp_path / "out")
    for path in (tmp_path / "out", tmp_path / "out/result.json"):
        again = vitro.load_result(path)
        assert again.data == result.data and again.out == tmp_path / "out"


@pytest.mark.parametrize("part, said", [
    ({"steps": {"latency_ms": [1.0]}}, "steps: is damaged .expected latency_ms, sequences"), ({"steps": [1]}, "steps: is damaged"),
    ({"steps": {"latency_ms": ["1"], "sequences": [1]}}, "steps: is damaged"),
    ({"peak_memory": [1]}, "peak_memory: is damaged .expected a map"),
    ({"peak_memory": {"weights": "1"}}, "peak_memory: is damaged"), ({"scaling": {"samples": [{"tokens": [1]}]}}, "scaling: is damaged"),
    ({"scaling": {"samples": [{}], "chosen": 0}}, "scaling: is damaged"), ({"scaling": []}, "scaling: is damaged"),
    ({"metrics": {"energy_parts_j": [1]}}, "metrics.energy_parts_j: is damaged"),
    ({"metrics": {"energy_by_unit_j": {"cpu0": "1"}}}, "metrics.energy_by_unit_j: is damaged")])
def test_damaged_parts_are_refused_with_the_name_of_the_file(tmp_path, part, said):
    (tmp_path / "result.json").write_text(json.dumps({"schema": "vitro.result/1", "metrics": {}, "machine": "sim"} | part))
    with pytest.raises(vitro.ConfigError, match=f"result.json: {said}"):
        vitro.load_result(tmp_path)


def test_a_file_too_deep_to_be_read_is_refused(tmp_path):
    (tmp_path / "result.json").write_text('{"a":' * 100000 + "1" + "}" * 100000)
    with pytest.raises(vitro.ConfigError, match="result.json: is no result of vitro .lists or maps"):
        vitro.load_result(tmp_path)


@pytest.mark.parametrize("text, said", [
    ('{"schema": "vitro.result/2", "metrics": {}, "machine": "sim"}', "vitro.result/2 is newer than this vitro"),
    ('{"schema": "vitro.store/1", "metrics": {}, "machine": "sim"}', "is not a result of vitro .expected schema vitro.result/1"),
    ('{"schema": "vitro.result/1"}', "is not a result"), ("[]", "is not a result"), ("{", "is not JSON"), (None, "no such file")])
def test_other_files_are_refused(tmp_path, text, said):
    path = tmp_path / "result.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(vitro.ConfigError, match=said):
        vitro.load_result(path)


def test_host_results_of_a_newer_version_are_refused(fake, tmp_path):
    from vitro.validate.compare import read_host_results
    folder = tmp_path / "results/a/1"
    folder.mkdir(parents=True)
    data = vitro.run(EXPERIMENT, machine="host").data
    (folder / "result.json").write_text(json.dumps(data))
    assert list(read_host_results(tmp_path / "results")) == ["small"]
    (folder / "result.json").write_text(json.dumps(data | {"schema": "vitro.result/7"}))
    with pytest.raises(vitro.ConfigError, match="vitro.result/7 is newer"):
        read_host_results(tmp_path / "results")
