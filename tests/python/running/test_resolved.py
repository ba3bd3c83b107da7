"""Resolved experiments: every default is in them, and they are experiments themselves."""
import json

import pytest
import vitro
import yaml
from vitro.base import quantities
from vitro.base.checkout import root
from vitro.running import experiments
from vitro.running.calibrated import beyond_calibration

from conftest import ROOT

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"


def runnable():
    """Every experiment of the tree: files that name a workload."""
    found = []
    for path in sorted((ROOT / "experiments").rglob("*.yaml")):
        tree = yaml.safe_load(path.read_text())
        if isinstance(tree, dict) and "experiment" in tree and "workload" in tree:
            found.append(path)
    return found


@pytest.mark.parametrize("path", runnable(), ids=lambda path: str(path.relative_to(ROOT / "experiments")))
def test_a_resolved_experiment_resolves_to_itself(path, native):
    once = vitro.resolve(path)
    assert vitro.resolve(once) == once
    assert once["engine"]["policy"] and once["workload"]["seed"] >= 0 and "seed" not in once
    planned = "plan" in once["engine"]  # for this device alone
    for overrides in (["workload.seed=7"], *([] if planned else [["device.name=other"]])):
        assert vitro.resolve(once, overrides=overrides) != once, "it can be changed like any experiment"


def test_there_are_experiments():
    assert len(runnable()) > 8


@pytest.mark.parametrize("overrides", [{}, {"engine.policy": "mmap", "memory.budget": "6 MiB", "seed": 5},
                                       {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%"}])
def test_a_resolved_experiment_runs_to_the_same_result(overrides, native):
    first = vitro.run(QUICKSTART, overrides=overrides | {"workload.output_tokens": 5})
    again = vitro.run(first["experiment_resolved"])
    assert again.tokens == first.tokens and again["event_hash"] == first["event_hash"]
    assert again["experiment_resolved"] == first["experiment_resolved"]


def test_the_printed_experiment_is_the_one_of_the_result(native):
    printed = native("run", QUICKSTART, "--set", "workload.output_tokens=2", "--resolve").json
    assert printed == native("run", QUICKSTART, "--set", "workload.output_tokens=2", "--json").json["experiment_resolved"]
    assert printed["engine"]["kv"]["format"] == "f32" and printed["workload"]["sampling"] == {"temperature": 0, "top_k": 0, "top_p": 1}


def test_a_result_is_written_once_with_all_that_is_known(native):
    answer = native("run", QUICKSTART, "--set", "workload.output_tokens=2", "--out", "out", "--band", "--json")
    written = json.loads((native.folder / "out" / "result.json").read_text())
    assert written == answer.json, answer.err
    assert written["prediction_band"] is None and any("no error band" in note for note in written["notes"]) and written["wall_s"] > 0
    assert {path.name for path in (native.folder / "out").iterdir()} == {"result.json", "trace.json", "decisions.jsonl", "report.html"}


def test_an_experiment_is_composed_once(native, monkeypatch, tmp_path):
    """The file may go once it was read: what runs is what was composed."""
    path = tmp_path / "exp.yaml"
    path.write_text(f"include: {QUICKSTART}\nexperiment: gone\nworkload: {{output_tokens: 2}}\n")
    composed = experiments.compose(path)
    path.unlink()
    result = experiments.run_composed(composed)
    assert result["experiment"] == "gone" and len(result.tokens) == 2
    monkeypatch.setattr(experiments, "compose", lambda *_, **__: pytest.fail("composed again"))
    assert experiments.run_composed(composed).tokens == result.tokens


def test_errors_of_a_run_still_name_file_and_line(native, tmp_path):
    (tmp_path / "e.yaml").write_text(f"include: {QUICKSTART}\n\nengine:\n  record: {tmp_path}\n")
    with pytest.raises(vitro.ConfigError, match=r"e\.yaml:4: engine\.record: .* is a folder"):
        vitro.run(tmp_path / "e.yaml")


def test_expectations_are_judged_once_and_before_a_run_as_far_as_can_be(native):
    with pytest.raises(vitro.ConfigError, match="expect.fast.within"):
        experiments.compose(QUICKSTART, overrides={"expect": {"fast": {"metric": "ttft_ms", "value": 1, "within": "lots"}}})
    result = vitro.run(QUICKSTART, overrides={"expect": {"fast": {"metric": "ttft_ms", "min": 0}}, "workload.output_tokens": 2})
    assert result.expectations is result.expectations and result.expectations[0]["status"] == "ok"


@pytest.mark.parametrize("overrides, said", [
    ({}, "dram lpddr.flow, cpu core.flow"), ({"device.ufs.fidelity": "detailed"}, "ufs ufs.detailed"),
    ({"device.dram.fidelity": "detailed"}, "dram lpddr.detailed")])
def test_a_simulation_names_the_fidelity_of_each_device(overrides, said, native):
    notes = vitro.run(QUICKSTART, overrides=overrides | {"workload.output_tokens": 2}, machine="sim")["notes"]
    assert any(said in note for note in notes), notes


def calibrated(read_ahead):
    covers = {"threads": [1, 4], "batch_rows": [1, 64], "working_set_mib": [1, 512], "read_bytes": [4096, 131072]}
    return {"experiment_resolved": {"device": {"calibration": {"covers": covers}}, "engine": {"placement": {"threads": 2}, **read_ahead},
                                    "workload": {"batch": 1}}}


@pytest.mark.parametrize("read_ahead, noted", [
    ({}, False), ({"read_ahead": "128 KiB"}, False), ({"read_ahead": "256 KiB"}, True), ({"read_ahead": "1 MiB"}, True),
    ({"read_ahead": "131072 B"}, False), ({"weights": {"read_ahead": "0.25 MiB"}}, True)])
def test_reads_beyond_the_calibrated_sizes_are_noted_in_any_spelling(read_ahead, noted, native):
    notes = beyond_calibration(calibrated(read_ahead))
    assert [note.startswith("beyond the calibration: reads") for note in notes] == [True] * noted


@pytest.mark.parametrize("text, dimension, value", [
    ("128 KiB", "bytes", 131072), ("128KiB", "bytes", 131072), ("6 MB", "bytes", 6e6), ("15 us", "time", 15e-6), ("50%", "ratio", 0.5),
    ("3", "bytes", None), ("fast", "time", None), ("2 GB/s", "bytes", None)])
def test_quantities_are_what_the_engine_takes_them_for(text, dimension, value, native):
    assert quantities.parse(text, dimension) == (None if value is None else pytest.approx(value))


def test_the_budget_of_a_result_may_have_any_unit(native):
    result = vitro.Result({"experiment_resolved": {"memory": {"budget": "0.5 GiB"}}})
    assert result.budget_bytes == 2 ** 29 and vitro.Result({}).budget_bytes is None


def test_the_checkout_is_found():
    assert root() == ROOT
