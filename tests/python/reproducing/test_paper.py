"""`vitro reproduce` at work: on a map of its own with the stand-in for the engine, and with the real one on a small model."""
import json
from pathlib import Path

import pytest
import vitro
import yaml
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.reproducing import paper as reproducing
from vitro.reproducing import plans as reproduce_plans

FIGURES = {"entries": [
    {"id": "toy_speed", "value": 1400, "unit": "tokens/s", "what": "", "source": "Toy 1", "kind": "system_result"},
    {"id": "toy_wait", "value": {"mean": 5, "p99": 5}, "unit": "ms/token", "what": "", "source": "Toy 2", "kind": "system_result"},
    {"id": "toy_other", "value": 3, "unit": "tokens/s", "what": "", "source": "Toy 3", "kind": "ablation"},
    {"id": "toy_lost", "value": None, "unit": "x", "what": "", "source": "Toy 4", "kind": "ablation"},
    {"id": "toy_torn", "value": 2, "unit": "tokens/s", "what": "", "source": "Toy 5", "kind": "ablation", "verdict": "contradictory"},
    {"id": "toy_energy", "value": 2, "unit": "J/token", "what": "", "source": "Toy 6", "kind": "system_result"},
    {"id": "toy_chip", "value": 2, "unit": "GB", "what": "", "source": "Toy 7", "kind": "hw_spec"},
], "reserved": [{"id": "toy_secret", "unit": "tokens/s", "what": "", "source": "Toy 8", "kind": "system_result", "status": "reserved"}]}

EXPERIMENT = {"experiment": "toy", "model": {}, "engine": {"policy": "dense"}, "workload": {"output_tokens": 4},
              "fake": {"log": "runs.log"}}

MAP = {
    "experiment": "toy.yaml", "figures": "figures.yaml",
    "parts": {"dense": {"engine.policy": "dense"}, "mmap": {"engine.policy": "mmap", "memory.budget": "5 MiB"},
              "magic": {"engine.policy": "magic"}, "host": {"machine": "host"}},
    "entries": {
        "toy_speed": {"runs": {"a": "dense"}, "formula": "a.decode_tokens_per_s"},
        "toy_wait": {"runs": {"a": "mmap"}, "formula": {"mean": "a.token_latency_ms.mean", "p99": "a.token_latency_ms.p99"},
                     "diagnosis": {"set": {"memory.budget": "7 MiB"}, "shows": "more memory"}},
        "toy_other": {"runs": {"a": "magic"}, "formula": "a.decode_tokens_per_s"},
        "toy_lost": {"runs": {"a": "dense", "b": "mmap"}, "formula": "a.decode_tokens_per_s / b.decode_tokens_per_s"},
        "toy_torn": {"runs": {"a": "dense"}, "formula": "a.decode_tokens_per_s"},
        "toy_energy": {"runs": {"a": "host"}, "formula": "a.energy_j_per_token"},
        "toy_secret": {"each": ["dense", "mmap"], "fold": "mean", "runs": {"a": "{}"}, "formula": "a.decode_tokens_per_s"}},
    "checks": {"dense_first": {"runs": {"a": "dense", "b": "mmap"}, "holds": "a.decode_tokens_per_s > b.decode_tokens_per_s"},
               "mmap_first": {"each": ["mmap", "dense"], "fold": "min", "runs": {"a": "{}", "b": "mmap"},
                              "holds": "a.decode_tokens_per_s <= b.decode_tokens_per_s"},
               "magic_first": {"runs": {"a": "magic", "b": "mmap"}, "holds": "a.decode_tokens_per_s > b.decode_tokens_per_s"}}}


def write(folder, changes=None, experiment=None):
    tree = json.loads(json.dumps(MAP))
    for dotted, value in (changes or {}).items():
        *path, leaf = dotted.split("/")
        node = tree
        for part in path:
            node = node[part]
        node[leaf] = value
    for name, content in {"map": tree, "figures": FIGURES, "toy": experiment or EXPERIMENT}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


@pytest.fixture
def toy(fake):
    return fake.folder


def rows_of(answer):
    return {row["id"]: row for row in answer["rows"]}


def test_each_row_has_its_status_and_the_published_value_beside_it(toy):
    answer = reproducing.reproduce("toy", folder=write(toy))
    rows = rows_of(answer)
    assert {key: row["status"] for key, row in rows.items()} == {
        "toy_speed": "ok", "toy_wait.mean": "off", "toy_wait.p99": "off", "toy_other": "not modelled", "toy_lost": "not modelled",
        "toy_torn": "contradictory", "toy_energy": "not modelled", "toy_secret": "reserved"}
    speed = rows["toy_speed"]
    assert (speed["expected"], speed["unit"], speed["source"], speed["relation"]) == (1400, "tokens/s", "Toy 1", "=")
    assert speed["simulated"] == pytest.approx(1e3 / 0.7) and speed["relative_error"] == pytest.approx(1e3 / 0.7 / 1400 - 1)
    assert rows["toy_secret"]["expected"] is None and rows["toy_secret"]["simulated"] > 0
    assert rows["toy_lost"]["simulated"] > 1
    assert answer["summary"] == {"ok": 1, "off": 2, "consistent": 0, "not modelled": 3, "contradictory": 1, "reserved": 1, "scored": 6,
                                 "ok_share": 1 / 6, "off_explained": 0, "off_unexplained": 0, "off_untried": 2,
                                 "checks": 3, "checks_held": 1, "checks_failed": 1}


def test_what_a_row_is_consistent_with_is_said_and_not_scored(toy):
    answer = reproducing.reproduce("toy", folder=write(toy, {"entries/toy_speed/consistent": "the clock is set by it"}))
    assert rows_of(answer)["toy_speed"]["status"] == "consistent" and "the clock is set by it" in rows_of(answer)["toy_speed"]["why"]
    assert (answer["summary"]["consistent"], answer["summary"]["ok"], answer["summary"]["scored"]) == (1, 0, 5)


def test_what_is_not_there_is_named(toy):
    rows = rows_of(reproducing.reproduce("toy", folder=write(toy)))
    assert 'engine.policy: "magic"' in rows["toy_other"]["why"]
    assert "energy_j_per_token is not measured" in rows["toy_energy"]["why"]


def test_checks_hold_or_not_or_can_not_be_asked(toy):
    checks = {check["id"]: check for check in reproducing.reproduce("toy", folder=write(toy))["checks"]}
    assert [checks[key]["holds"] for key in ("dense_first", "mmap_first", "magic_first")] == [True, False, None]


def test_a_run_that_many_rows_want_runs_once(toy):
    reproducing.reproduce("toy", folder=write(toy), jobs=2)
    assert len((toy / "runs.log").read_text().splitlines()) == 3  # dense, mmap, host


def test_a_cluster_gives_the_same_rows(toy):
    from distributed import LocalCluster
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        there = reproducing.reproduce("toy", folder=write(toy), on=f"dask:{cluster.scheduler_address}")
    assert there["rows"] == reproducing.reproduce("toy", folder=write(toy))["rows"]


@pytest.mark.parametrize("on, said", [("cloud", "--on: 'cloud'"), ("dask:tcp://a:1", "--jobs: can not be combined with --on")])
def test_a_place_that_is_none_is_refused_before_plans_are_made(toy, monkeypatch, on, said):
    monkeypatch.setattr(reproducing, "Runs", None)  # which makes them
    with pytest.raises(ConfigError, match=said):
        reproducing.reproduce("toy", folder=write(toy), jobs=2, on=on)


def test_later_words_win_and_a_whole_part_takes_back_what_lay_in_it(toy):
    parts = {"dense": {"workload.output_tokens": 9, "engine.policy": "dense"}, "host": {"workload": {"output_tokens": 3}},
             "dense host": {"engine.policy": "mmap"}, "mmap": {}, "magic": {}}
    mapped = reproducing.paper_map.load("toy", write(toy, {"parts": parts}))
    assert mapped.overrides("dense host") == {"workload": {"output_tokens": 3}, "engine.policy": "mmap"}
    assert mapped.overrides("host dense")["workload.output_tokens"] == 9 and mapped.overrides("dense")["engine.policy"] == "dense"


def test_a_run_with_a_plan_gets_one_for_its_device_model_and_memory(toy, monkeypatch):
    made = []

    def plan(model, *, device, overrides, cores, bench, **options):
        made.append((model, device, overrides, cores, options))
        return {"vitro_plan": 1, "engine": {"policy": "dense"}}
    monkeypatch.setattr(reproduce_plans, "make_plan", plan)
    toy_map = {"parts": {"dense": {"engine.policy": "dense", "plan": {"accelerator": ""}}, "mmap": {}, "magic": {}, "host": {"plan": None}}}
    mapped = reproducing.paper_map.load("toy", write(toy, toy_map))
    assert mapped.overrides("dense") == {"engine.policy": "dense"} and mapped.plan("dense mmap") == {"accelerator": ""}
    assert mapped.plan("mmap") is None and mapped.plan("dense host") is None, "later words win"
    runs = reproducing.Runs(mapped, 1, None)
    more = {"memory.ffn_in_dram": "50%", "engine.placement.units": ["cpu1"]}
    seeds = [runs._resolve("dense", "", more | {"workload.output_tokens": tokens})[1]["engine.plan"] for tokens in (1, 2)]
    assert seeds[0] == seeds[1] and "policy: dense" in Path(seeds[0]).read_text()
    assert runs._resolve("dense", "", {"memory.ffn_in_dram": "25%"})[1]["engine.plan"] != seeds[0]
    assert "engine.plan" not in runs._resolve("dense", "", more | {"plan": None})[1], "a diagnosis may do without"
    assert [call[2:] for call in made] == [(["memory.ffn_in_dram=50%"], ["cpu1"], {"accelerator": ""}),
                                           (["memory.ffn_in_dram=25%"], None, {"accelerator": ""})]


def test_only_takes_one_result_with_all_its_numbers(toy):
    answer = reproducing.reproduce("toy", folder=write(toy), only="toy_wait")
    assert set(rows_of(answer)) == {"toy_wait.mean", "toy_wait.p99"} and not answer["checks"]
    assert len((toy / "runs.log").read_text().splitlines()) == 1
    assert set(rows_of(reproducing.reproduce("toy", folder=toy, only="toy_wait.p99"))) == {"toy_wait.p99"}
    assert [check["id"] for check in reproducing.reproduce("toy", folder=toy, only="dense_first")["checks"]] == ["dense_first"]
    several = reproducing.reproduce("toy", folder=toy, only=["toy_wait.p99", "toy_speed", "toy_wait"])
    assert list(rows_of(several)) == ["toy_wait.p99", "toy_speed", "toy_wait.mean"] and not several["checks"]
    for wrong in ("toy_wai", ["toy_wait", "toy_wai"]):
        with pytest.raises(ConfigError, match='"toy_wai" is neither'):
            reproducing.reproduce("toy", folder=toy, only=wrong)


def test_a_diagnosis_is_a_run_of_its_own(toy):
    rows = rows_of(reproducing.reproduce("toy", folder=write(toy), diagnose=True))
    found = rows["toy_wait.mean"]["diagnosis"]
    assert found["set"] == {"memory.budget": "7 MiB"} and found["simulated"] < rows["toy_wait.mean"]["simulated"]
    assert "more memory" in rows["toy_wait.mean"]["why"] and "diagnosis" not in rows["toy_speed"]


def test_a_diagnosis_may_change_one_run_of_several(toy):
    changes = {"parts/slow": {"memory.budget": "5 MiB"},
               "entries/toy_speed": {"each": ["dense"], "fold": "mean", "runs": {"a": "{}", "b": "dense"},
                                     "formula": "a.decode_tokens_per_s / b.decode_tokens_per_s",
                                     "diagnosis": {"runs": {"b": "mmap slow"}, "shows": "b was fast"}}}
    answer = reproducing.reproduce("toy", folder=write(toy, changes), only="toy_speed", diagnose=True)
    row = answer["rows"][0]
    assert row["simulated"] == 1 and row["diagnosis"]["simulated"] > 1 and row["diagnosis"]["runs"] == {"b": "mmap slow"}
    assert (answer["summary"]["off_explained"], answer["summary"]["off_unexplained"]) == (0, 1), "b was not that fast"
    without = write(toy, {"entries/toy_speed": {"runs": {"a": "mmap"}, "formula": "a.decode_tokens_per_s"}})
    assert reproducing.reproduce("toy", folder=without, only="toy_speed")["summary"]["off_unexplained"] == 1


def test_the_band_of_an_assumed_parameter_is_carried_to_the_rows_that_depend_on_it(toy):
    model = {"profile": {"fraction": "10%"}, "provenance": {"fraction": {"kind": "assumed", "band": "20%", "source": "none"}}}
    rows = rows_of(reproducing.reproduce("toy", folder=write(toy, experiment=EXPERIMENT | {"model": model})))
    assert rows["toy_speed"]["low"] <= rows["toy_speed"]["simulated"] <= rows["toy_speed"]["high"]
    assert len((toy / "runs.log").read_text().splitlines()) == 9
    assert "low" not in rows_of(reproducing.reproduce("toy", folder=write(toy)))["toy_speed"]


def test_a_diagnosis_may_count_otherwise(toy):
    changes = {"entries/toy_energy": {"runs": {"a": "dense"}, "formula": "3 * a.decode_tokens_per_s",
                                      "diagnosis": {"formula": "a.decode_tokens_per_s", "shows": "one of three"}}}
    row = reproducing.reproduce("toy", folder=write(toy, changes), only="toy_energy", diagnose=True)["rows"][0]
    assert row["simulated"] == pytest.approx(3 * row["diagnosis"]["simulated"]) and len((toy / "runs.log").read_text().splitlines()) == 1


def test_switches_reach_the_planner_as_yaml_has_them():
    about = {"memory": {"ffn_in_dram": "50%"}, "engine": {"weights": {"bundle": False, "window": 0}, "placement": {"units": ["cpu1"]}}}
    assert reproduce_plans._sets(about) == ["memory.ffn_in_dram=50%", "engine.weights.bundle=false", "engine.weights.window=0"]


def test_a_map_has_two_readings(toy):
    """As published a compared system has what its paper gives; like for like it has what all have."""
    folder = write(toy, {"parts/mmap/published": {"memory.budget": "9 MiB"},
                         "entries/toy_speed": {"runs": {"a": "mmap"}, "formula": "a.decode_tokens_per_s",
                                               "consistent": {"published": "its budget is set by it"},
                                               "diagnosis": {"fair": {"set": {"memory.budget": "7 MiB"}, "shows": "with more memory"}}}})
    both = {reading: reproducing.reproduce("toy", folder=folder, reading=reading, only="toy_speed", diagnose=True)
            for reading in ("published", "fair")}
    rows = {reading: answer["rows"][0] for reading, answer in both.items()}
    assert [answer["reading"] for answer in both.values()] == ["published", "fair"]
    assert rows["published"]["simulated"] > rows["fair"]["simulated"], "more memory is faster"
    assert rows["published"]["status"] == "consistent" and not rows["published"]["diagnosed"]
    assert rows["fair"]["diagnosis"]["shows"] == "with more memory"
    with pytest.raises(ConfigError, match='--reading: there is no "both"'):
        reproducing.reproduce("toy", folder=folder, reading="both")


def test_a_diagnosis_may_have_a_formula_for_each_number_of_a_figure(toy):
    changes = {"entries/toy_wait/diagnosis": {"formula": {"mean": "2 * a.token_latency_ms.mean"}, "shows": "twice the mean"}}
    rows = rows_of(reproducing.reproduce("toy", folder=write(toy, changes), diagnose=True))
    assert rows["toy_wait.mean"]["diagnosis"]["simulated"] == pytest.approx(2 * rows["toy_wait.mean"]["simulated"])
    assert rows["toy_wait.p99"]["diagnosis"]["simulated"] == rows["toy_wait.p99"]["simulated"]


@pytest.mark.parametrize("changes,expected", [
    ({"entries/toy_speed/formulas": "1"}, "toy_speed: formulas"),
    ({"entries/toy_speed/runs": {"a": "dens"}}, '"dens" is not one of the parts'),
    ({"entries/toy_speed/formula": "b.x"}, 'there is no run "b"'),
    ({"entries/toy_speed/formula": "open('x')"}, "expected numbers"),
    ({"entries/toy_secret/fold": "median"}, "fold"),
    ({"entries/toy_wait/diagnosis": {"runs": {"b": "dense"}, "shows": "x"}}, 'there is no run "b" to replace'),
    ({"entries/toy_wait/diagnosis": {"shows": "x"}}, "is incomplete"),
    ({"entries/toy_wait/diagnosis": {"formula": "b.x", "shows": "x"}}, 'diagnosis.formula: there is no run "b"'),
    ({"entries/toy_speed/consistent": True}, "toy_speed: consistent: True (expected a text"),
    ({"entries/toy_wait/consistent": "is an input"}, "both consistent and a diagnosis"),
    ({"entries/toy_speed/points": 3}, "toy_speed: points: 3"),  # of no percentage
    ({"entries/toy_nothing": {"runs": {}, "formula": "1"}}, "toy_nothing: is not a result"),
    ({"entries/toy_speed": {"runs": {}}}, "neither a formula nor a reason"),
])
def test_a_wrong_map_is_one_message(toy, changes, expected):
    with pytest.raises(ConfigError) as error:
        reproducing.reproduce("toy", folder=write(toy, changes))
    assert expected in str(error.value) and "map.yaml" in str(error.value)


def test_a_result_without_an_answer_is_refused(toy):
    folder = write(toy)
    tree = yaml.safe_load((folder / "map.yaml").read_text())
    del tree["entries"]["toy_energy"]
    (folder / "map.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(ConfigError, match="toy_energy: is missing"):
        reproducing.reproduce("toy", folder=folder)


def test_a_run_that_fails_leaves_the_others_standing(toy):
    changes = {"parts/host": {"fake.fail": "the read came back short"}}
    answer = reproducing.reproduce("toy", folder=write(toy, changes))
    assert "the read came back short" in rows_of(answer)["toy_energy"]["why"] and rows_of(answer)["toy_speed"]["status"] == "ok"
    assert [run["failed"] for run in answer["runs"]].count(True) == 1


def test_wrong_arguments_are_exit_2(native):
    for arguments, expected in ((("--paper", "pi3"), "pi2"), (("--only", "pi2_t6_bamboo"), "pi2_t6_bamboo"), (("--jobs", "0"), "jobs")):
        answer = native("reproduce", *arguments)
        assert answer.code == 2 and not answer.out and expected in answer.err and "Traceback" not in answer.err


# ---- with the real engine: two layers of Bamboo's FFN on the phone

SMALL = {
    "experiment": "small", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"),
    "model": {"format": "q4_0", "profile": {"fraction": "20%", "persistence": "90%", "ordered": True},
              "provenance": {"fraction": {"kind": "assumed", "band": "20%", "source": "a test"}},
              "shape": {"layers": 2, "width": 512, "heads": 8, "ffn": 2048, "vocab": 1000, "context": 128, "activation": "relu",
                        "predictor_rank": 64}},
    "engine": {"policy": "neuron_cluster", "threads": 2, "activations": "int8", "numerics": False},
    "workload": {"prompt_tokens": 4, "output_tokens": 6, "stop_at_eos": False}, "memory": {"ffn_in_dram": "50%"}}
SMALL_MAP = {"parts": {name: {} for name in ("dense", "mmap", "host")} | {
    "magic": {"engine.hybrid": {"unit": "npu", "prefill": False, "splits": [{"batch": 1}]}}}}


def test_real_runs_are_deterministic_and_move_with_the_band(native, tmp_path):
    answers = [reproducing.reproduce("toy", folder=write(tmp_path, SMALL_MAP, SMALL), only="toy_speed") for _ in range(2)]
    row = answers[0]["rows"][0]
    assert row["low"] < row["high"] and row["low"] <= row["simulated"] <= row["high"]  # 16 to 24 % of the neurons fire
    hashes = [[run["event_hash"] for run in answer["runs"]] for answer in answers]
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == 3 and None not in hashes[0]


def test_an_accelerator_that_does_nothing_is_no_mechanism(native, tmp_path):
    row = reproducing.reproduce("toy", folder=write(tmp_path, SMALL_MAP, SMALL), only="toy_other")["rows"][0]
    assert row["status"] == "not modelled" and row["simulated"] > 0 and "launched nothing" in row["why"]


def test_a_profile_of_the_model_is_read_and_the_engine_may_replace_it(native):
    wrong = json.loads(json.dumps(SMALL))
    wrong["model"]["profile"]["fraction"] = "120 GB"
    with pytest.raises(ConfigError, match="model.profile.fraction"):
        vitro.resolve(wrong)
    rates = [vitro.run(SMALL, overrides=more).metrics["flash_bytes_read"]["decode"]
             for more in ({}, {"engine.profile.fraction": "0%"}, {"model.profile.fraction": "0%"})]
    assert rates[0] > 0 and rates[1:] == [0, 0]


def test_python_has_it_too():
    assert callable(vitro.reproduce)
