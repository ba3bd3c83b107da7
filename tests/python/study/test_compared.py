"""Points that a search is compared with: they run like any point and are no part of the search."""
import pandas
import pytest
import vitro
from conftest import ROOT
from test_search import STUDY, runs
from vitro.study import compared, store
from vitro.study.site import write_site

COMPARE = STUDY + """  compare:
    small: {engine.policy: mmap, memory.budget: 1 MiB}
    as it is: {}
"""


@pytest.mark.all
def test_they_are_told_against_the_front_and_change_nothing_of_the_search(fake, tmp_path):
    path = fake.write(COMPARE)
    frame = vitro.search(path, out="o")
    alone = vitro.search(STUDY, out="alone")
    drop = ["wall_s", "identity"]
    pandas.testing.assert_frame_equal(frame.drop(columns=drop), alone.drop(columns=drop))
    small, as_it_is = frame.attrs["compared"]
    assert (small["label"], as_it_is["label"]) == ("small", "as it is") and small["status"] == "ok" and small["feasible"]
    table = pandas.read_csv(tmp_path / "o/compared.csv")
    assert list(table["label"]) == ["small", "as it is"] and list(table["distance"]) == [small["distance"], as_it_is["distance"]]
    best = frame[frame["front"]]
    no_more = best[best["peak_memory_bytes"] <= as_it_is["peak_memory_bytes"]]
    assert as_it_is["behind.decode_tokens_per_s"] == pytest.approx(no_more["decode_tokens_per_s"].max() / as_it_is["decode_tokens_per_s"])
    assert small["distance"] <= 1, "nothing is smaller"
    kept = pandas.read_parquet(tmp_path / "o/results.parquet")
    assert len(kept) == 20 and kept.attrs["compared"] == frame.attrs["compared"]
    page = (tmp_path / "o/report.html").read_text()
    assert "Compared with the front" in page and ">as it is</text>" in page, "a table and a mark in the picture"


@pytest.mark.all
def test_they_are_in_the_store_and_are_resumed(fake, tmp_path):
    path = fake.write(COMPARE)
    vitro.search(path, out="o")
    before = runs(tmp_path)
    seen = []
    again = vitro.search(path, out="o", resume=True, progress=lambda done, total: seen.append((done, total)))
    assert runs(tmp_path) == before and seen[-1] == (22, 22)
    kept = store.rows("o")
    for row in again.attrs["compared"]:
        assert ((kept["identity"] == row["identity"]) & (kept["repeat"] == row["repeat"])).sum() == 1
    site = write_site(tmp_path / "o").read_text()
    assert "Compared with the front" in site and ">as it is</a>" in site
    vitro.search(fake.write(STUDY), out="o", resume=True)
    assert not (tmp_path / "o/compared.csv").exists()


@pytest.mark.all
def test_the_command_prints_them(fake):
    answer = fake("search", fake.write(COMPARE), "--out", "o")
    assert answer.code == 0 and "compared with the front" in answer.out and "o/compared.csv" in answer.out
    lines = [line for line in answer.out.splitlines() if line.startswith("small")]
    assert len(lines) == 1 and lines[0].endswith("ok")
    told = fake("search", fake.write(COMPARE), "--out", "o", "--resume", "--json").json["compared"]
    assert [row["label"] for row in told] == ["small", "as it is"]


@pytest.mark.all
def test_one_that_fails_or_breaks_a_constraint_is_said(fake):
    text = COMPARE.replace("  over:", "  constraints: {peak_memory_bytes: {max: 5.0e+6}}\n  over:").replace(
        "as it is: {}", "broken: {fake.fail: boom}\n    large: {memory.budget: 7 MiB}")
    answer = fake("search", fake.write(text), "--out", "o")
    assert answer.code == 1 and "broken, which was to be compared, failed: boom" in answer.err
    assert "ok, breaks a constraint" in answer.out
    assert "broken" in answer.out and "broken failed: boom" in (fake.folder / "o/report.html").read_text()


@pytest.mark.parametrize("old, new, said", [
    ("{}\n", "3\n", "exp.yaml:17: sweep.compare.as it is: 3"), ("{engine.policy: mmap, memory", "{engine.policy: magic, memory", "magic"),
    ("  compare:\n    small: {engine.policy: mmap, memory.budget: 1 MiB}\n    as it is: {}\n", "  compare: [1]\n", "sweep.compare: [1]")])
def test_what_is_wrong_is_named_before_anything_runs(fake, tmp_path, old, new, said):
    assert old in COMPARE
    answer = fake("search", fake.write(COMPARE.replace(old, new)), "--out", "o")
    assert answer.code == 2 and said in answer.err and runs(tmp_path) == 0, answer.err


def test_the_front_of_the_planner_is_read(native):
    resolved = vitro.resolve(ROOT / "experiments/planner-front.yaml")
    assert list(compared.read(resolved["sweep"]["compare"])) == ["planner", "planner, six cores"]


def test_a_plan_is_compared_on_a_small_model(native, tmp_path):
    """The real engine: a share within a list is searched, and a plan is a point beside the front."""
    model = ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf"
    base = {"experiment": "small", "machine": "sim", "device": "vitro:devices/oneplus12", "model": {"gguf": str(model)},
            "workload": {"prompt_tokens": 4, "output_tokens": 4, "stop_at_eos": False},
            "engine": {"policy": "neuron_cluster", "ffn": {"clusters": {"hot_cluster": 16}},
                       "placement": {"units": ["cpu0"], "unit": "npu", "splits": [{"batch": 1, "hot": "0%", "attention": "0%"}]}},
            "sweep": {"design": "search", "trials": 4, "batch": 4,
                      "objectives": {"decode_tokens_per_s": "maximize", "energy_j_per_token": "minimize"},
                      "over": {"engine.placement.splits.0.hot": {"from": "0%", "to": "100%"}},
                      "compare": {"cores": {"engine": {"policy": "neuron_cluster", "placement": {"units": ["cpu0"]}}}}}}
    frame = vitro.search(base, out=tmp_path / "o")
    assert (frame["status"] == "ok").all() and frame["decode_tokens_per_s"].nunique() > 1
    (row,) = frame.attrs["compared"]
    assert row["status"] == "ok" and row["distance"] > 0
