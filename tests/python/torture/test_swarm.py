"""`vitro torture`: cases end well, are replayed and tallied."""
import json
import subprocess
import sys

import pytest
from vitro.torture import draw, swarm

FEW, ALL = 24, 300
SMALL_EXPERTS_KEPT = 768  # experts smaller than their slots: more were to stay than there were slots, and loading ended without a word
PAGES_BESIDE_REWARD = 6281  # pages took the room of the reward model's weights, and the first step was over budget
LEADING_DENSE_HOT = 96  # hot neurons of a mixture whose first layer is dense, as a graph: it was made for that layer, and crashed


@pytest.fixture(scope="module")
def folder(tmp_path_factory, has_native):
    return tmp_path_factory.mktemp("torture")


def assert_well(tally):
    assert not tally.wrong, [(verdict["why"], json.dumps(verdict["case"])) for verdict in tally.wrong]


def test_drawn_cases_recover_or_fail_clearly(folder):
    tally = swarm.run_seeds(range(FEW), "virtual", None, folder)
    assert_well(tally)
    assert tally.cases["recovered"] > 0 and tally.cases["failed"] > 0
    assert sum(tally.cases.values()) == FEW


@pytest.mark.all
def test_all_drawn_cases_recover_or_fail_clearly(folder):
    assert_well(swarm.run_seeds(range(FEW, ALL), "virtual", None, folder))


@pytest.mark.all
def test_drawn_cases_on_the_other_machines_do_so_too(folder):
    from conftest import ROOT
    assert_well(swarm.run_seeds(range(20), "host", None, folder))
    assert_well(swarm.run_seeds(range(8), "sim", str(ROOT / "configs" / "devices" / "oneplus12.yaml"), folder))


def test_graphs_of_hot_neurons_are_of_layers_that_have_neurons(folder):
    case = draw.case(LEADING_DENSE_HOT)
    assert case["model"]["other"] and case["model"]["kind"] == "mixture" and case["experiment"]["engine"]["placement"]["unit"] == "hexagon"
    assert swarm.run(case, folder)["outcome"] != "WRONG"


def test_pages_leave_room_for_a_reward_model(folder):
    case = draw.case(PAGES_BESIDE_REWARD)
    assert case["reward"] and case["experiment"]["memory"]["budget"] and case["experiment"]["engine"]["weights"]["kind"] == "paged"
    assert swarm.run(case, folder)["outcome"] != "WRONG"


def test_no_more_experts_stay_than_there_are_slots(folder):
    engine = draw.case(SMALL_EXPERTS_KEPT)["experiment"]["engine"]
    assert engine["ffn"]["kind"] == engine["weights"]["kind"] == "experts"
    assert swarm.run(draw.case(SMALL_EXPERTS_KEPT), folder)["outcome"] != "WRONG"


def test_what_a_case_ran_is_its_replay(folder):
    verdict = next(verdict for verdict in (swarm.run(draw.case(seed), folder) for seed in range(FEW)) if verdict["fired"])
    again = swarm.run(verdict["case"], folder)
    assert again == verdict


def test_a_fault_that_loses_nothing_is_told_apart_from_the_one_that_ends_a_run(has_native):
    tally = swarm.Tally()
    tally.take({"outcome": "failed", "why": "", "fired": {"latency": 3, "read_error": 1}, "case": {}})
    tally.take({"outcome": "recovered", "why": "", "fired": {"latency": 2}, "case": {}})
    rows = {row[0]: row[1:] for row in tally.rows()}
    assert rows["latency"] == (2, 5, 1, 0, 1, 0)
    assert rows["read_error"] == (1, 1, 0, 1, 0, 0)
    assert rows["stall"] == (0, 0, 0, 0, 0, 0)


def vitro(*words, cwd):
    return subprocess.run([sys.executable, "-m", "vitro", "torture", *words], capture_output=True, text=True, cwd=cwd)


def test_the_command_prints_a_table_and_replays_a_file(folder, tmp_path):
    done = vitro("--seeds", "3", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stdout)["cases"].values()) == 3
    verdict = next(verdict for verdict in (swarm.run(draw.case(seed), folder) for seed in range(FEW)) if verdict["fired"])
    (tmp_path / "case.json").write_text(json.dumps(verdict["case"]))
    done = vitro("--replay", "case.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    rows = {words[0]: tuple(map(int, words[1:3])) for words in lines if len(words) == 7 and words[1].isdigit()}
    struck = {kind: (1, times) for kind, times in verdict["fired"].items()}
    assert struck and {kind: counts for kind, counts in rows.items() if any(counts)} == struck
    assert "beside: the run failed, but for another fault" in done.stdout


def test_a_replay_says_the_machine_of_its_case(folder, tmp_path):
    (tmp_path / "case.json").write_text(json.dumps(draw.case(0, "host")))
    done = vitro("--replay", "case.json", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["machine"] == "host", done.stderr


def test_cases_of_two_machines_are_two_files(tmp_path):
    from vitro.torture import cli
    files = [cli._keep({"case": {"seed": 3, "machine": machine, "faults": {"entries": []}}, "why": "x"}, tmp_path, None, 60, False)
             for machine in ("virtual", "sim")]
    assert files == [str(tmp_path / "virtual-seed-3.json"), str(tmp_path / "sim-seed-3.json")]
    assert [json.loads((tmp_path / name).read_text())["machine"] for name in files] == ["virtual", "sim"]


def test_the_command_refuses_what_is_no_case(folder, tmp_path):
    for text in ("[1, 2]", "[" * 100_000):
        (tmp_path / "case.json").write_text(text)
        done = vitro("--replay", "case.json", cwd=tmp_path)
        assert done.returncode == 2 and "case.json: is no case of a torture run" in done.stderr
    done = vitro("--machine", "toaster", cwd=tmp_path)
    assert done.returncode == 2 and "expected virtual, sim or host" in done.stderr


def test_an_experiment_may_have_faults(folder, tmp_path):
    from conftest import ROOT
    (tmp_path / "faults.yaml").write_text("entries:\n  - {fault: read_error, at: 3}\n")
    experiment = {"experiment": "e", "machine": "host", "model": str(ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf"),
                  "workload": {"prompt": "Once", "output_tokens": 2}, "faults": "faults.yaml"}
    (tmp_path / "e.yaml").write_text(json.dumps(experiment))
    run = [sys.executable, "-m", "vitro", "run", "e.yaml"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and "read_error (a fault on purpose, read 3)" in done.stderr, done.stderr
    (tmp_path / "faults.yaml").write_text("entries:\n  - {fault: latency, at: 3, count: 5, delay: 1 ms}\n")
    done = subprocess.run([*run, "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and "faults on purpose: 5 latency" in done.stdout, done.stderr
