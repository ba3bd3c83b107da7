"""A study as an object: rows when they are asked for, filtered, pivoted and compared."""
import json
import math
import re
import sys

import pytest
import vitro
from conftest import ROOT
from scipy import stats
from vitro.study.store import Store

RUNS = {("4 MiB", 1): 10.0, ("4 MiB", 2): 12.0, ("16 MiB", 1): 20.0, ("16 MiB", 2): 23.0}
POLICIES = {"mmap": 1.0, "dense": 1.5}


@pytest.fixture
def folder(tmp_path):
    number = 0
    with Store(tmp_path) as study:
        for policy, factor in POLICIES.items():
            for (budget, seed), speed in RUNS.items():
                point = {"engine.policy": policy, "memory.budget": budget, "workload.seed": seed}
                number += 1
                job = {"identity": f"i{number}", "repeat": 0, "machine": "sim", "label": None, "experiment": "x",
                       "point": json.dumps(point), "engine": "e", "revision": None, "dirty": False, "files": "{}",
                       "host": "null", "tries": 1, "began": ""}
                metrics = {"decode_tokens_per_s": factor * speed + seed, "peak_memory_bytes": 100.0 * number}
                study.add(job, {"metrics": metrics, "wall_s": 1.0, "machine": "sim", "experiment": "x", "text": None, "tokens": [1],
                                "experiment_resolved": {"device": {"name": "phone", "ufs": {"queues": {"value": 1, "kind": "spec"}}}}})
    return tmp_path


def test_rows_are_those_that_hold_every_condition(folder):
    study = vitro.Study(folder)
    assert len(study) == 8 and len(study.where({"engine.policy": "mmap"})) == 4
    paged = study.where({"engine.policy": "mmap", "workload.seed": [2, 3]})
    assert list(paged.to_frame(["memory.budget"])["memory.budget"]) == ["4 MiB", "16 MiB"]
    fast = paged.where(lambda rows: rows["decode_tokens_per_s"] > 20)
    assert list(fast.to_frame()["decode_tokens_per_s"]) == [25.0]
    assert len(study.where({"device.name": "phone", "device.ufs.queues": 1})) == 8 and len(study.where({"device.name": "other"})) == 0


def test_a_point_without_the_key_has_what_its_run_resolved_to(native, tmp_path):
    """The base's value, or that of a map or a preset that it swept."""
    (tmp_path / "paged.yaml").write_text("policy: mmap\nunits: [cpu1]\n")
    vitro.sweep(ROOT / "experiments/quickstart.yaml", out=tmp_path / "o", overrides={"workload.output_tokens": 2, "sweep": [
        {"engine.policy": "mmap", "memory.budget": "6 MiB"}, {"workload.seed": 2, "memory.budget": "16 MiB"},
        {"engine": {"policy": "mmap", "units": ["cpu0"]}}, {"engine": str(tmp_path / "paged.yaml")}, {"engine.units": [["cpu1"]]},
        {"workload.seed": 1, "engine.policy": "mmap", "memory.budget": "8 MiB"}]})
    study = vitro.Study(tmp_path / "o")

    def points(**condition):
        return [json.loads(text) for text in study.where({key.replace("_", "."): value for key, value in condition.items()})
                .to_frame(["point"])["point"]]
    assert sorted(map(str, points(engine_policy="dense"))) == sorted(map(str, points(engine_policy=["dense", "none"]))) == [
        "{'engine.units': ['cpu1']}", "{'workload.seed': 2, 'memory.budget': '16 MiB'}"]
    assert len(points(engine_policy="mmap")) == 4 and len(points(workload_seed=1)) == 5 and len(points(workload_seed=2)) == 1
    assert len(points(engine_units=[["cpu1"]])) == 2 and len(points(engine_units=[["cpu0"]])) == 1
    assert len(points(memory_budget=None)) == 3
    whole = study.to_frame(["engine.policy", "workload.seed"])
    assert sorted(whole["engine.policy"]) == [*["dense"] * 2, *["mmap"] * 4] and whole["workload.seed"].tolist().count(1) == 5
    assert study.to_frame()["point.engine.policy"].notna().sum() == 2 and "resolved" not in study.to_frame().columns
    assert study.pivot("engine.policy", "workload.seed", "decode_tokens_per_s", "count").loc["dense", 2] == 1
    eight = study.where({"memory.budget": "8 MiB"})
    assert eight.compare(study.where({"engine.policy": "dense", "engine.units": [["cpu1"]]})).frame["pairs"].tolist() == [1]


@pytest.mark.all
def test_the_block_of_the_guide_runs(native, tmp_path, monkeypatch):
    for name in ("experiments", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    part = (ROOT / "docs/guide/python.md").read_text().partition("\n## A study\n")[2].partition("\n## ")[0]
    names = {}
    for code in re.findall(r"```python\n(.*?)```", part, re.DOTALL):
        exec(code, names)
    assert len(names["study"]) == 12 and len(names["window"]) == 6


def test_documents_of_results_are_read_for_results_alone(folder):
    study = vitro.Study(folder).where({"engine.policy": "dense"})
    assert not {"answer", "resolved"} & set(study.to_frame().columns)
    results = list(study.results())
    assert len(results) == 4 and results[0].metric("decode_tokens_per_s") == 16.0
    assert results[0]["experiment_resolved"]["device"]["name"] == "phone"


def test_rows_that_finish_later_are_there(folder):
    study = vitro.Study(folder)
    first = len(study)
    with Store(folder) as store:
        store.forget([("i1", 0)])
    assert (first, len(study)) == (8, 7)


def test_a_pivot_orders_quantities_by_size(folder):
    table = vitro.Study(folder).pivot("memory.budget", "engine.policy", "decode_tokens_per_s")
    assert list(table.index) == ["4 MiB", "16 MiB"] and list(table.columns) == ["dense", "mmap"]
    assert table.loc["4 MiB", "mmap"] == pytest.approx((11 + 14) / 2)
    assert vitro.Study(folder).pivot("memory.budget", "engine.policy", "decode_tokens_per_s", "max").loc["16 MiB", "mmap"] == 25


def test_an_interval_is_that_of_a_paired_t_test(folder):
    study = vitro.Study(folder)
    paged, dense = (study.where({"engine.policy": policy}) for policy in POLICIES)
    compared = paged.compare(dense, ["decode_tokens_per_s"])
    assert list(compared.frame["memory.budget"]) == ["4 MiB", "16 MiB"] and compared.unpaired == (0, 0)
    row = compared.frame.iloc[0]
    expected = stats.ttest_rel([16.0, 20.0], [11.0, 14.0]).confidence_interval(0.95)
    assert (row["pairs"], row["first"], row["second"], row["difference"]) == (2, 12.5, 18.0, 5.5)
    assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-12)
    assert row["relative_high"] == pytest.approx(expected.high / 12.5)
    assert "paired over workload.seed" in compared.method and "t-interval" in compared.method and "95%" in compared.method
    assert "t-interval" in compared._repr_html_() and "95%" in repr(compared)
    narrow = paged.compare(dense, confidence=0.5).frame.iloc[0]
    assert narrow["high"] < row["high"]


def test_one_pair_has_no_interval_and_rows_without_a_partner_are_counted(folder):
    study = vitro.Study(folder)
    one = study.where({"engine.policy": "mmap", "workload.seed": 1})
    compared = one.compare(study.where({"engine.policy": "dense"}))
    assert compared.unpaired == (0, 2)
    assert compared.frame["pairs"].tolist() == [1, 1] and compared.frame["low"].map(math.isnan).all()


def test_conditions_are_exact_and_may_be_any_values(folder):
    import numpy
    study = vitro.Study(folder)
    for seed in (1, 1.0, "1", numpy.int64(1), range(2), numpy.array([1]), (one for one in (1, 5))):
        chosen = study.where({"workload.seed": seed})
        assert len(chosen) == len(chosen) == 4, seed
    assert len(study.where({"decode_tokens_per_s": 11.000001})) == 0 and len(study.where({"decode_tokens_per_s": 11})) == 1
    assert len(study.where({"device.name": "other"}).where({"device.ufs.queues": 1})) == 0


def test_a_study_without_a_finished_row_has_no_rows(tmp_path):
    with Store(tmp_path):
        pass
    study = vitro.Study(tmp_path)
    assert len(study) == len(study.where({"engine.policy": "mmap"}).where(lambda rows: rows["x"] > 1)) == 0


def test_a_metric_that_is_named_twice_is_compared_once(folder):
    study = vitro.Study(folder)
    found = study.compare(study, ["decode_tokens_per_s", "decode_tokens_per_s"]).frame
    assert found["pairs"].tolist() == [2] * 4


@pytest.mark.parametrize("call, said", [
    (lambda study: study.where({"engine.polcy": "mmap"}).to_frame(), "engine.polcy: is neither a column"),
    (lambda study: study.where("mmap"), "where: 'mmap' .expected a map"),
    (lambda study: study.compare(study, "memory.budget"), "memory.budget: is a key of the points .expected a metric"),
    (lambda study: study.compare(study, "machine"), "machine: is no number"),
    (lambda study: study.compare(study, over="typo"), "over: typo is no key"),
    (lambda study: study.pivot("memory.budget", "engine.policy", "decode_tokens_per_s", "typo"), "'typo' of decode_tokens_per_s can"),
    (lambda study: study.pivot("memory.budget", "engine.policy", "machine"), "pivot: 'mean' of machine can not"),
    (lambda study: study.where({"engine.policy": "none"}).pivot("memory.budget", "workload.seed", "decode_tokens_per_s"),
     "has no row to put into a table that holds the conditions"),
    (lambda study: study.compare(study, "speed"), "speed: is neither a column"),
    (lambda study: study.compare(study, confidence=95), "confidence: 95 .expected a number between"),
    (lambda study: study.compare(study.where({"engine.policy": "none"})), "has no row to compare that holds"),
    (lambda study: study.compare(study.where({"workload.seed": 3})), "has no row"),
    (lambda study: study.front({"decode_tokens_per_s": "most"}), "each with maximize or minimize"),
    (lambda study: vitro.Study(study.folder / "none").to_frame(), "is no store of a study")])
def test_mistakes_have_one_message(folder, call, said):
    with pytest.raises(vitro.ConfigError, match=said):
        call(vitro.Study(folder))


def test_studies_without_a_common_point_are_refused(folder):
    study = vitro.Study(folder)
    with pytest.raises(vitro.ConfigError, match="no point of one study has an equal one in the other"):
        study.where({"workload.seed": 1}).compare(study.where({"workload.seed": 2}))


def test_the_front(folder):
    front = vitro.Study(folder).front({"decode_tokens_per_s": "maximize", "peak_memory_bytes": "minimize"})
    assert list(front["decode_tokens_per_s"]) == [11.0, 14.0, 21.0, 25.0, 31.0, 36.5]
    assert list(front.columns[:5]) == ["point.engine.policy", "point.memory.budget", "point.workload.seed", "decode_tokens_per_s",
                                       "peak_memory_bytes"]
    assert sorted(front.columns) == sorted(vitro.Study(folder).to_frame().columns)


def test_a_page_shows_the_keys_that_differ(folder):
    page = vitro.Study(folder)._repr_html_()
    assert "8 rows" in page and "memory.budget" in page and "16 MiB" in page and "decode_tokens_per_s" in page
    assert repr(vitro.Study(folder).where({"engine.policy": "mmap"})).endswith(", filtered)")


def test_polars(folder, monkeypatch):
    table = pytest.importorskip("polars") and vitro.Study(folder).to_polars(["memory.budget", "decode_tokens_per_s"])
    assert table.shape == (8, 2) and table["memory.budget"][0] == "4 MiB"
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(vitro.ConfigError, match="polars is not installed .expected `pip install polars`"):
        vitro.Study(folder).to_polars()
