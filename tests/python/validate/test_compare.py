"""`vitro validate`: the small suite on this machine and on a simulated one, and how outcomes are judged. No wall time is asserted."""
import contextlib
import json
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT
from vitro.errors import ConfigError, RunError
from vitro.execute.task import Outcome
from vitro.running import experiments
from vitro.running.result import Result
from vitro.validate import ablation
from vitro.validate import compare as validate
from vitro.validate import suite as validate_suite
from vitro.validate.report import write_report

SUITES = ROOT / "experiments" / "validation"
DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"
RECORDED = SUITES / "recorded"


def row(host, sim, runs=(), group=("m",), **more):
    names = {name: None for name in (*validate.METRICS, *validate.SHARES)}
    both = {side: validate.nested(names | {"decode_tokens_per_s": speed}) for side, speed in (("host", host), ("sim", sim))}
    return both | {"id": f"m-{host}", "group": list(group), "host_runs": list(runs) or [host],
                   "host_against_host": validate.noise(list(runs)),
                   "relative_error": validate.nested(dict.fromkeys(validate.METRICS) | {"decode_tokens_per_s": sim / host - 1}),
                   "tokens_equal": True, "bytes_equal": True, "decisions": None, "notes": []} | more


def judged(rows, **bounds):
    return validate.summary(rows, validate_suite.Suite("s", [], bounds))


@pytest.mark.all
def test_the_small_suite_is_exact_in_all_that_noise_can_not_touch(native, tmp_path):
    """Bytes, tokens and decisions are equal; of times only that there are any."""
    answer = native("validate", SUITES / "small.yaml", "--device", DEVICE, "--runs", 1, "--json", "--out", "out")
    assert answer.code == 0, answer.out or answer.err
    found = answer.json
    assert found["summary"]["n"] == len(found["rows"]) == 5
    for each in found["rows"]:
        assert each["tokens_equal"] and each["bytes_equal"] and each["decisions"]["equal"], each["id"]
        assert each["host"]["decode_tokens_per_s"] > 0 and each["sim"]["decode_tokens_per_s"] > 0
        assert all((tmp_path / "out" / path).exists() for path in each["traces"].values()) and len(each["traces"]) == 2
    flash = [each for each in found["rows"] if "mmap" in each["id"] or "cluster" in each["id"]]
    assert all(each["host"]["flash_bytes_read"]["decode"] > 0 for each in flash) and len(flash) == 2
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(each["traces"]["sim"] in page for each in found["rows"])


    # Its real runs count again where only the simulation is new.
    again = native("validate", SUITES / "small.yaml", "--device", ROOT / "configs/devices/oneplus_ace2.yaml", "--host-results", "out",
                   "--only", "embedded.q4_0", "--json", "--out", "again")
    assert again.code == 0, again.out or again.err
    old = next(each for each in found["rows"] if each["id"] == again.json["rows"][0]["id"])
    new = again.json["rows"][0]
    assert new["host"] == old["host"] and new["host_runs"] == old["host_runs"] and new["sim"] != old["sim"]
    assert new["tokens_equal"] and new["decisions"]["equal"]
    assert all((tmp_path / "again" / path).exists() for path in new["traces"].values()) and len(new["traces"]) == 2


@pytest.mark.all
def test_the_band_is_the_same_wherever_it_is_simulated(native):
    words = ("validate", SUITES / "small.yaml", "--device", DEVICE, "--runs", 1, "--only", "embedded.q4_0", "--json")
    here, there = native(*words), native(*words, "--on", "dask")
    assert here.code == there.code == 0, here.err + there.err
    for one, other in zip(here.json["rows"], there.json["rows"], strict=True):
        assert one["sim"] == other["sim"] and one["band"] == other["band"] and one["band"]
    refused = native(*words, "--on", "moon")
    assert refused.code == 2 and "--on: 'moon'" in refused.err


def test_a_run_that_fails_is_named_with_its_case(monkeypatch):
    def executed(tasks, place):
        for task in tasks:
            failed = RunError("the memory ends") if task.about == 3 else None
            yield task, Outcome({"machine": "host", "metrics": {}}, failed)

    monkeypatch.setattr(experiments, "execute", executed)
    monkeypatch.setattr(experiments.places, "opened", lambda on: contextlib.nullcontext())
    monkeypatch.setattr(experiments, "compose", lambda *_, **__: SimpleNamespace(tree="{}", resolved={"machine": "sim"}))
    runners = [validate._Runner(SimpleNamespace(id=name, experiment={}, overrides=[]), None) for name in ("a", "b")]
    with pytest.raises(RunError, match="^b on sim with faster parameters: the memory ends$"):
        validate._simulate_corners(runners, {"name": "d"}, "dask")
    with pytest.raises(RunError, match="^a on host: the memory ends$"):
        runners[0]._run([("host", None, None)] * 4)


def test_recorded_metrics_have_their_present_names():
    """Recorded before waiting for flash had the name that it has now."""
    kept = validate.read_kept(RECORDED)
    runner = validate._Runner(SimpleNamespace(id=next(iter(kept)), group=lambda: ("m",)), None, [], next(iter(kept.values())))
    runner.sim = Result({"metrics": {"exposed_io_share": 0.25}, "machine": "sim"})
    row = runner.row()
    assert row["host"]["exposed_io_share"] == next(iter(kept.values()))["host"]["io_share"]
    assert row["difference"]["exposed_io_share"] == 0.25 - row["host"]["exposed_io_share"]


def test_passes_of_the_calibration_stand_between_the_rounds(monkeypatch, tmp_path):
    said = []

    class Runner:
        def __init__(self, case, *_):
            self.id = case.id

        def run(self, *, counts):
            said.append((self.id, counts))

        def simulate(self, device, with_band):
            said.append((self.id, device["name"]))

        def row(self):
            return row(10, 11)

    class Calibration:
        def one_pass(self):
            said.append("pass")

        def device(self):
            said.append("device")
            return {"name": "host"}

    monkeypatch.setattr(validate, "_Runner", Runner)
    suite = validate_suite.Suite("s", [SimpleNamespace(id=name) for name in "ab"], {})
    answer = validate.validate(suite, None, runs=2, calibration=Calibration())
    once = [("a", True), ("b", True)]
    assert said == [("a", False), ("b", False), "pass", *once, "pass", *once, "device", ("a", "host"), ("b", "host")]
    assert answer["device"] == "host"


def test_a_device_that_is_not_there_is_noticed_before_the_first_run(monkeypatch):
    monkeypatch.setattr(validate._Runner, "_run", lambda *_: pytest.fail("ran"))
    with pytest.raises(ConfigError, match="nowhere.yaml: no such file"):
        validate.validate(validate_suite.Suite("s", [SimpleNamespace(id="a")], {}), "nowhere.yaml")


def test_nothing_is_measured_between_runs_that_are_over(native, tmp_path):
    answer = native("validate", SUITES / "small.yaml", "--device", "host.yaml", "--host-results", tmp_path, "--calibrate")
    assert answer.code == 2 and "--calibrate" in answer.err


def test_the_suite_is_as_wide_as_it_has_to_be():
    suite = validate_suite.load(SUITES / "suite.yaml", make=False)
    assert len(suite.cases) >= 30
    assert {case.model.split(".f")[0].split(".q")[0] for case in suite.cases} == {"embedded", "200m", "1.3b"}
    swept = {key: {str(case.point[key]) for case in suite.cases if key in case.point} for key in
             ("engine.threads", "workload.batch", "memory.ffn_in_dram", "engine.policy", "workload.prompt_tokens")}
    assert swept["engine.threads"] == {"1", "2"} and {"2", "8"} <= swept["workload.batch"]
    assert {"100%", "75%", "50%", "25%"} <= swept["memory.ffn_in_dram"] and {"mmap", "neuron_cluster"} <= swept["engine.policy"]


def test_the_machine_as_its_own_predictor():
    assert validate.noise([10, 10, 10]) == 0
    assert validate.noise([9, 10, 11]) == pytest.approx((1.5 / 10.5 + 0 + 1.5 / 9.5) / 3)
    assert validate.noise([10]) is None


def test_a_noisy_machine_concludes_nothing():
    noisy = judged([row(10, 10, [5, 10, 20])], conclusive=True)
    assert not noisy["conclusive"] and "too noisy" in noisy["why"] and not noisy["bounds"][0]["holds"]
    assert judged([row(10, 10, [9.9, 10, 10.1])], conclusive=True)["bounds"][0]["holds"]


def test_pairs_that_differ_have_to_be_ordered_alike():
    assert judged([row(10, 20), row(20, 30)])["rank_agreement"] == 1
    assert judged([row(10, 30), row(20, 20)])["rank_agreement"] == 0
    assert judged([row(10, 30), row(10.5, 20)])["rank_agreement"] is None  # too close to have an order
    assert judged([row(10, 30), row(20, 20, group=("other",))])["pairs"] == 0


def test_nothing_is_predicted_better_than_it_repeats_itself():
    noise = [10, 11, 12]  # 7.6 % from the medians of the others
    assert judged([row(10, 11.4, noise)], mape_decode="10%")["bounds"][0]["holds"]
    assert not judged([row(10, 11.4, [10, 10])], mape_decode="10%")["bounds"][0]["holds"]
    assert judged([row(10, 9)], mape_decode="10%")["mape_decode"] == pytest.approx(0.1)


def test_throttled_results_say_so():
    hot = Result({"machine_state": {"throttled": "cpu7 was capped at 1.80 of 3.30 GHz"}})
    assert validate.throttled([hot, hot, Result({})]) == ["throttled: cpu7 was capped at 1.80 of 3.30 GHz"]


@pytest.mark.parametrize("text, said", [
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments:\n  - {model: n}", 'suite.yaml:4: experiments[0].model: there is no "n"'),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments: [{model: m}]\nbound: {}", "bound: unknown key"),
    ("machine: host\nexperiment: a", "suite.yaml:2: experiment: is of an experiment, and this command takes a suite"),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments: [{model: m}]\nbounds: {mape: 1%}", "suite.yaml:4: bounds.mape: unknown key"),
    ("suite: a\nmodels: {m: {path: x}}\nexperiments: [{model: m}]", "expected {gguf: PATH}"),
    ("suite: a\nmodels:\n  m:\n    gguf: x.gguf\nbase: {workload: {prompt: x}}\nexperiments: [{model: m}]",
     "suite.yaml:4: models.m: .*x.gguf: no such file"),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments:\n  - {model: m}", "suite.yaml:4: workload: is missing"),
    ("suite: a\nmodels: {m: {gguf: x}}\nbase:\n  engine: {}\n  workload:\n    prompt: 'a: b'\n    seeed: 1\nexperiments: [{model: m}]",
     "suite.yaml:7: workload.seeed: unknown key"),
    ("suite: a\nmodels: {m: {gguf: x}}\nbase: {workload: {prompt: x}}\nexperiments:\n  - model: m\n    engine.polcy: [dense]",
     "suite.yaml:6: engine.polcy: unknown key"),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments: [{model: m, a: [1, 1]}]", "is there twice"),
    ("suite: a\nexperiments: [{model: m}]", "models: is missing"),
    ("suite: [a", "suite.yaml:1"),
    ("suite: a\nmodels: 3\nexperiments: [{model: m}]", "models: 3 .expected a map"),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments: 3", "experiments: 3 .expected a list"),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments: [{model: m}]\nbase: 3", "base: 3 .expected a map"),
    ("suite: a\nmodels: {m: {gguf: [x]}}\nexperiments: [{model: m}]", "expected {gguf: PATH}"),
    ("suite: a\nmodels: {m: {gguf: x}}\nexperiments: [{model: m}]\nbounds: {mape_decode: low}", 'bounds.mape_decode: "low"'),
])
def test_wrong_suites_are_the_users_mistake(native, tmp_path, text, said):
    (tmp_path / "suite.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said.replace("{", r"\{").replace("[", r"\[")):
        validate_suite.load(tmp_path / "suite.yaml")


def test_the_report_shows_what_went_wrong_first(tmp_path):
    rows = [row(10, 11, [9, 10], traces={"host": "a/host/trace.json"}), row(20, 60, [20, 20], tokens_equal=False)]
    write_report({"suite": "s", "device": "d", "rows": rows, "summary": judged(rows, rank_agreement="95%")}, tmp_path)
    page = (tmp_path / "report.html").read_text()
    table = page[page.index("Worst first"):]
    assert table.index("+200.0%") < table.index("+10.0%") and "other tokens" in table and 'href="a/host/trace.json"' in table


# ---- ablation

def calibrated():
    """A device with all that can be taken out of it, on which two cores share what one core nearly fills."""
    leaf = lambda value: {"value": value, "kind": "measured", "source": "made up"}
    core = {"cores": 1, "clock": leaf("2 GHz"), "core_bandwidth": leaf("10 GB/s"), "cluster_bandwidth": leaf("12 GB/s"),
            "hand_back": leaf("3 us"), "wake_up": leaf("30 us"), "call_overhead": leaf("300 ns"),
            "macs_per_cycle": {"kind": "measured", "source": "", "float.f16": 20}}
    return {"name": "made up", "dram": {"model": "lpddr", "fidelity": "flow", "bandwidth": leaf("12 GB/s"), "latency": leaf("90 ns"),
                                        "capacity": leaf("16 GB"), "available": leaf("16 GB")},
            "cpu": {"model": "core", "fidelity": "flow", "bandwidth": leaf("12 GB/s"), "plan_step_cycles": leaf(1200),
                    "clusters": [{"class": "big"} | core, {"class": "others"} | core]},
            "ufs": {"model": "ufs", "fidelity": "flow", "link_bandwidth": leaf("2 GB/s"), "issue_fixed": leaf("5 us"),
                    "issue_cycles": leaf(0), "issuer_switch": leaf("0 us"), "command_overhead": leaf("15 us"),
                    "latency_random": leaf("80 us"),
                    "latency_sequential": leaf("80 us"), "map_cache_reach": leaf("1000 GB"), "map_cache_miss": leaf("0 us"),
                    "write_bandwidth": leaf("1 GB/s")}}


@pytest.fixture(scope="module")
def recording():
    """A recording in which the machine did exactly what the device says."""
    suite = validate_suite.load(SUITES / "suite.yaml", make=False)
    rows = []
    for wanted in ("embedded.f16-threads=1", "200m.f16-threads=2", "200m.f16-policy=mmap-ffn_in_dram=50%-output_tokens=6"):
        case = next(case for case in suite.cases if case.id == wanted)
        rows.append({"id": case.id, "again": ablation.recordable(case)})
        rows[-1]["host"] = {ablation.METRIC: ablation.predict(rows[-1], calibrated())}
    return rows


def test_each_mechanism_that_is_taken_out_is_missed(native, recording):
    errors = ablation.judge(recording, calibrated())
    assert errors["all"] == 0
    for mechanism in ablation.MECHANISMS:
        assert errors[mechanism] > 0.002, (mechanism, errors)


def test_a_recording_needs_no_weights_where_decisions_do_not_depend_on_them():
    suite = validate_suite.load(SUITES / "suite.yaml", make=False)
    again = {case.id: ablation.recordable(case) for case in suite.cases}
    assert again["200m.q4_0-activations=int8-threads=1"]["model"]["shape"]["width"] == 1024
    assert again["embedded.f16-threads=1"]["model"]["gguf"].startswith("configs/models/embedded/")
    by_neuron = ("neuron_cluster", "llmflash", "powerinfer")
    assert all((value is None) == any(policy in name for policy in by_neuron) for name, value in again.items())


def test_unknown_mechanisms_are_refused():
    with pytest.raises(ConfigError, match="is not a mechanism"):
        ablation.without(calibrated(), "magic")


@pytest.mark.all
@pytest.mark.skipif(not (RECORDED / "validate.json").exists(), reason="no run has been recorded")
def test_against_the_recorded_run_each_mechanism_earns_its_place(native):
    rows = json.loads((RECORDED / "validate.json").read_text())["rows"]
    errors = ablation.judge(rows, yaml.safe_load((RECORDED / "device.yaml").read_text()))
    for mechanism in ablation.MECHANISMS:
        assert errors[mechanism] > errors["all"], (mechanism, errors)


def test_a_validation_of_a_newer_version_is_refused(tmp_path):
    (tmp_path / "validate.json").write_text(json.dumps({"schema": "vitro.validate/2", "rows": []}))
    with pytest.raises(ConfigError, match="vitro.validate/2 is newer than this vitro"):
        validate.read_kept(tmp_path)
