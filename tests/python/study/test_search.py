"""Searches: the front, constraints, and the same way again when one is resumed."""
import json

import pandas
import pytest
import vitro
from vitro.base.dominance import front
from vitro.study import store
from vitro.study.search import excess, read

STUDY = """
experiment: searched
machine: sim
engine: {policy: mmap}
workload: {output_tokens: 3}
fake: {log: runs.log}
sweep:
  design: search
  trials: 20
  batch: 4
  objectives: {decode_tokens_per_s: maximize, peak_memory_bytes: minimize}
  over:
    memory.budget: {from: 1 MiB, to: 7 MiB}
    engine.policy: [mmap, dense]
"""


def runs(folder):
    log = folder / "runs.log"
    return len(log.read_text().split()) if log.exists() else 0


def test_a_front_is_what_nothing_dominates():
    rows = [(1, 5), (2, 4), (2, 5), (3, 1), None, (1, 5)]
    assert front(rows, ["minimize", "minimize"]) == [True, True, False, True, False, True]
    assert front(rows, ["maximize", "maximize"]) == [False, False, True, True, False, False]


def test_bounds_have_two_sides():
    plan = read({"design": "search", "trials": 1, "objectives": {"a": "maximize"}, "over": {"x": [1]},
                 "constraints": {"a": {"min": 3, "max": 7}}})
    assert excess({"a": 5}, plan) == [-2, -2] and excess({"a": 8}, plan) == [-5, 1] and excess({"a": 1}, plan) == [2, -6]


def test_a_search_finds_the_front_and_writes_it(fake, tmp_path):
    answer = fake("search", fake.write(STUDY), "--out", "o")
    assert answer.code == 0, answer.err
    frame = pandas.read_parquet(tmp_path / "o/results.parquet")
    best = pandas.read_csv(tmp_path / "o/front.csv")
    assert len(frame) == 20 and list(frame["point"]) == list(range(20)) and list(best["point"]) == list(frame[frame["front"]]["point"])
    for _, row in frame.iterrows():
        as_fast, as_small = best["decode_tokens_per_s"] >= row["decode_tokens_per_s"], best["peak_memory_bytes"] <= row["peak_memory_bytes"]
        assert (as_fast & as_small).any(), "every point is on the front or behind one that is"
    page = (tmp_path / "o/report.html").read_text()
    assert "on the front" in answer.out and "</html>" in page
    assert "Points on the front" in page and "on the front</text>" in page and "DRAM peak, MiB</text>" in page


@pytest.mark.all
def test_a_search_that_is_resumed_goes_the_same_way(fake, tmp_path):
    path = fake.write(STUDY)
    whole = vitro.search(path, out="whole")
    before = runs(tmp_path)
    vitro.search(path, out="o", trials=7)
    resumed = vitro.search(path, out="o", resume=True)
    drop = ["wall_s"]
    pandas.testing.assert_frame_equal(whole.drop(columns=drop), resumed.drop(columns=drop))
    assert runs(tmp_path) == 2 * before, "nothing ran twice"
    assert len(store.rows("o")) == whole["identity"].nunique()


def test_a_process_that_joins_does_not_end_a_search_that_began_anew(fake, tmp_path):
    path, others = fake.write(STUDY), []
    vitro.search(path, out="o", trials=8)
    before = runs(tmp_path)

    def progress(done, total):
        if done == 2:
            others.append(store.Store(tmp_path / "o"))
    frame = vitro.search(path, out="o", trials=12, workers=1, progress=progress)
    assert len(frame) == 12 and (frame["status"] == "ok").all() and runs(tmp_path) - before == frame["identity"].nunique()
    with pytest.raises(vitro.ConfigError, match="is at work there"):
        vitro.search(path, out="o")


@pytest.mark.all
def test_workers_do_not_change_a_search(fake):
    path = fake.write(STUDY.replace("trials: 20", "trials: 12"))
    one, four = (vitro.search(path, out=f"o{workers}", workers=workers).drop(columns="wall_s") for workers in (1, 4))
    pandas.testing.assert_frame_equal(one, four)


@pytest.mark.all
def test_constraints_hold_on_the_front_and_failures_are_rows(fake, tmp_path):
    text = STUDY.replace("  over:", "  constraints: {peak_memory_bytes: {max: 3.0e+6}}\n  over:\n    fake.fail: [boom]\n")
    assert fake("search", fake.write(text), "--out", "p").code == 1, "all of them fail"
    text = STUDY.replace("  over:", "  constraints: {peak_memory_bytes: {max: 3.0e+6}}\n  over:")
    answer = fake("search", fake.write(text), "--out", "o", "--json")
    rows = answer.json["rows"]
    assert {row["feasible"] for row in rows} == {True, False}
    assert all(rows[point]["peak_memory_bytes"] <= 3e6 for point in answer.json["front"]) and answer.json["front"]


def test_points_to_which_a_metric_does_not_apply_are_behind_all_others(fake):
    """Only runs with mmap have a rate of cache hits."""
    frame = vitro.search(STUDY.replace("peak_memory_bytes: minimize", "cache_hit_rate: maximize"), out="o")
    assert len(frame) == 20 and (frame["status"] == "ok").all() and set(frame["engine.policy"]) == {"mmap", "dense"}
    assert list(frame["feasible"]) == list(frame["engine.policy"] == "mmap")
    assert frame["front"].any() and set(frame[frame["front"]]["engine.policy"]) == {"mmap"}


def test_a_metric_that_applies_to_no_point_is_named_at_the_end(fake, tmp_path):
    text = STUDY.replace("peak_memory_bytes: minimize", "cache_hit_rate: maximize").replace("[mmap, dense]", "[dense]")
    answer = fake("search", fake.write(text), "--out", "o")
    assert answer.code == 2 and "sweep.objectives: 'cache_hit_rate' is no number in the result of any point" in answer.err
    assert runs(tmp_path) == 20


@pytest.mark.all
def test_a_search_gets_closer_than_chance(fake):
    """The best budget of a share of 1 % is found in fewer points than drawing needs for it in the mean."""
    text = STUDY.replace("{decode_tokens_per_s: maximize, peak_memory_bytes: minimize}", "{decode_tokens_per_s: maximize}").replace(
        "trials: 20", "trials: 48").replace("to: 7 MiB", "to: 7.2 MiB").replace("[mmap, dense]", "[mmap]")
    frame = vitro.search(text, out="o")
    assert frame["decode_tokens_per_s"].max() > 1e3 / (0.7 + 0.01 * 6.2 * 2 ** 20 / 2e6)


@pytest.mark.parametrize("old, new, said", [
    ("  trials: 20\n", "", "sweep.trials: None"), ("trials: 20", "trials: no", "exp.yaml:9: sweep.trials: False"),
    ("decode_tokens_per_s: maximize", "decode_tokens_per_s: more", "exp.yaml:11: sweep.objectives"),
    ("decode_tokens_per_s: maximize", "speed: maximize", "sweep.objectives: 'speed' is no number"),
    ("  over:", "  constraints: {ttft_ms: 3}\n  over:", "exp.yaml:12: sweep.constraints.ttft_ms: 3"),
    ("  over:", "  constraints: [ttft_ms]\n  over:", "exp.yaml:12: sweep.constraints: ['ttft_ms'] (expected"),
    ("  over:", "  constraints: {ttft_ms: {max: .nan}}\n  over:", "sweep.constraints.ttft_ms.max: nan is not a number"),
    ("  over:", "  constraints: {ttft_ms: {min: -.inf}}\n  over:", "sweep.constraints.ttft_ms.min: -inf is not a number"),
    ("  over:", "  constraints: {ttft_ms: {max: true}}\n  over:", "exp.yaml:12: sweep.constraints.ttft_ms.max: True is not a number"),
    ("  over:", "  constraints: {speed: {max: 1}}\n  over:", "exp.yaml:12: sweep.constraints: 'speed' is no number"),
    ("decode_tokens_per_s: maximize", "token_latency_ms: minimize", "sweep.objectives: 'token_latency_ms' is no number"),
    ("batch: 4", "bach: 4", "exp.yaml:10: sweep.bach: unknown key"), ("design: search", "design: sobol", "is no search")])
def test_what_is_wrong_in_a_search_is_named(fake, old, new, said):
    answer = fake("search", fake.write(STUDY.replace(old, new)), "--out", "o")
    said_at_all = [line for line in answer.err.splitlines() if " left" not in line]  # a slow machine reports progress
    assert answer.code == 2 and len(said_at_all) == 1 and said in said_at_all[0], answer.err


def test_a_sweep_says_that_it_is_a_search(fake):
    answer = fake("sweep", fake.write(STUDY), "--out", "o")
    assert answer.code == 2 and "vitro search" in answer.err


def test_the_example_is_read(native):
    from conftest import ROOT
    resolved = vitro.resolve(ROOT / "experiments/search.yaml")
    plan = read(json.loads(json.dumps(resolved["sweep"])))
    assert plan.trials == 40 and len(plan.objectives) == 3 and len(plan.bounds) == 1
