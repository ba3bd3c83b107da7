"""Energy of a real run: the sampler on a made-up tree of sysfs, and joules from its samples."""
import json
import os
import subprocess
import time

import pytest
from conftest import ROOT

from vitro.validate import energy

SAMPLER = ROOT / "python/vitro/validate/sample.sh"
PHONE = {"current_now": "-1000000\n", "voltage_now": "4000000\n", "status": "Discharging\n", "type": "Battery\n", "temp": "312\n",
         "charge_counter": "3000000\n"}


def write(folder, values):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(value)


def tree(root, battery=None, charger="0\n"):
    """A made-up /sys of a phone: a battery, a charger, two clocks and two zones."""
    supplies = root / "class/power_supply"
    if battery is not None:
        write(supplies / "battery", battery)
    write(supplies / "usb", {"type": "USB\n", "online": charger})
    for cpu, khz in (("cpu0", "3302400\n"), ("cpu1", "<unknown>\n")):
        write(root / f"devices/system/cpu/{cpu}/cpufreq", {"scaling_cur_freq": khz})
    write(root / "class/thermal/thermal_zone0", {"type": "cpu-0-0\n", "temp": "45000\n"})
    write(root / "class/thermal/thermal_zone1", {"type": 'odd "name"\n', "temp": "-5000\n"})
    return root


def sampled(tmp_path, battery, **more):
    """-> the header and the rows of the script, killed after some."""
    out = tmp_path / "samples.jsonl"
    root = tree(tmp_path / "sys", battery, **more)
    run = subprocess.Popen(["sh", SAMPLER, out], env=os.environ | {"SYS": str(root), "INTERVAL": "0.05"})
    until = time.monotonic() + 60
    while (not out.exists() or out.read_text().count("\n") < 6) and time.monotonic() < until:
        time.sleep(0.05)
    run.kill()
    run.wait()
    header, *rows = [json.loads(line) for line in out.read_text().splitlines()]
    return header, rows


def test_the_sampler_leaves_out_what_is_not_there_or_no_number(tmp_path):
    header, rows = sampled(tmp_path, PHONE | {"power_now": "garbage 12\n", "capacity": "", "energy_now": "1-2\n", "current_avg": "-7"})
    assert header["battery"] == "battery" and header["has"] == ["current_now", "current_avg", "voltage_now", "charge_counter", "temp"]
    assert header["missing"] == ["power_now", "charge_now", "energy_now", "capacity"] and header["interval_s"] == 0.05
    assert len(rows) >= 5 and all(a["t"] <= b["t"] for a, b in zip(rows, rows[1:]))
    assert rows[0]["battery"] == {"current_now": -1000000, "current_avg": -7, "voltage_now": 4000000, "charge_counter": 3000000,
                                  "temp": 312, "status": "Discharging"}
    assert rows[0]["khz"] == {"cpu0": 3302400} and rows[0]["millidegrees"] == {"cpu-0-0": 45000, "thermal_zone1": -5000}
    assert "khz" not in rows[1]


def test_a_charger_is_seen_and_a_machine_without_a_battery_is_no_failure(tmp_path):
    _, rows = sampled(tmp_path, PHONE, charger="1\n")
    assert rows[0]["battery"]["online"] == "usb"
    (tmp_path / "other").mkdir()
    header, rows = sampled(tmp_path / "other", None)
    assert header["battery"] == "" and header["has"] == [] and rows[0]["battery"] == {}


RESULT = {"metrics": {"load_ms": 500, "ttft_ms": 500, "prefill_tokens_per_s": 8},
          "machine_state": {"samples": [{"at_s": 0}, {"at_s": 3.0}]},
          "steps": {"latency_ms": [200] * 10, "sequences": [1] * 10}}


def samples(watts=lambda t: -4.0, **battery):
    """Ten a second from 0 to 10 s. The process ran from 4.9 to 8 s, so that the decoding is from 6 to 8 s. watts: at 4 V."""
    plain = {"voltage_now": 4000000, "status": "Discharging"}
    rows = [{"t": i / 10, "battery": {"current_now": round(watts(i / 10) / 4 * 1e6)} | plain | battery} for i in range(101)]
    rows = [row | {"battery": {key: value for key, value in row["battery"].items() if value is not None}} for row in rows]
    return energy.Samples({"battery": "battery", "missing": ["power_now"]}, rows, 4.9, 8.0)


def test_joules_of_the_window_alone():
    found = energy.measured(RESULT, samples(lambda t: -8.0 if 6 <= t <= 8 else -1.0))
    assert found.metrics["energy_j_per_token"] == pytest.approx(1.6) and found.metrics["mean_power_w"] == pytest.approx(8)
    assert found.about["rate_hz"] == 10 and found.about["sign"] == "negative out of the battery" and found.about["missing"] == ["power_now"]
    assert found.about["slack_s"] == pytest.approx(0.1) and found.about["window_s"] == pytest.approx(2)
    assert found.metrics["prefill_energy_j_per_token"] is None


def test_a_ramp_is_integrated_and_a_warm_up_does_not_count():
    found = energy.measured(RESULT, samples(lambda t: -t))
    assert found.about["energy_j"] == pytest.approx(14, rel=1e-3) and not found.notes and found.about["changes"] > 10
    warm = RESULT | {"experiment_resolved": {"workload": {"warmup_tokens": 5}}}
    found = energy.measured(warm, samples(lambda t: -t))
    assert found.metrics["energy_j_per_token"] == pytest.approx(7.5 / 5, rel=1e-3)


@pytest.mark.parametrize("battery, about", [
    ({"current_now": 1000000}, {"sign": "positive out of the battery"}),
    ({"current_now": -1000}, {"units": {"current_now": "mA", "voltage_now": "uV"}}),
    ({"current_now": 1000, "voltage_now": 4000}, {"units": {"current_now": "mA", "voltage_now": "mV"}}),
    ({"current_now": None, "power_now": 4000000}, {"source": "power_now", "units": {"power_now": "uW", "voltage_now": "uV"}}),
    ({"voltage_now": None, "power_now": -4000}, {"source": "power_now", "units": {"power_now": "mW", "current_now": "uA"}}),
    ({"current_now": 0, "power_now": 4000000}, {"source": "power_now"})])
def test_signs_and_units_of_vendors(battery, about):
    found = energy.measured(RESULT, samples(**battery))
    assert found.metrics["mean_power_w"] == pytest.approx(4) and about.items() <= found.about.items()
    assert "changed 0 times" in found.notes[0]


def test_a_window_that_may_be_off_is_said():
    given = samples(lambda t: -t)
    found = energy.measured(RESULT, energy.Samples(given.header, given.rows, 4.0, 8.0))
    assert found.notes == ["energy: the window of 2.00 s may lie up to 1.00 s off (expected a longer run)"]


def test_two_cells_in_series_and_the_counter_of_charge():
    given = samples()
    for row in given.rows:  # 1 A out of it
        row["battery"]["charge_counter"] = round(3e6 - row["t"] * 1e6 / 3600)
    found = energy.measured(RESULT, given, cells=2)
    assert found.metrics["mean_power_w"] == pytest.approx(8) and found.about["charge_j"] == pytest.approx(16, rel=0.01)


def test_one_token_has_the_energy_of_its_prompt():
    one = RESULT | {"steps": {"latency_ms": [], "sequences": []}}
    found = energy.measured(one, samples())
    assert found.metrics["prefill_energy_j_per_token"] == pytest.approx(4 * 0.5 / 4) and found.metrics["energy_j_per_token"] is None


@pytest.mark.parametrize("given, said", [
    (None, "no samples beside the result"), (samples(online="usb"), "a charger was plugged in (usb)"),
    (samples(status="Charging"), "status was Charging"), (samples(current_now=None), "does not show current_now, power_now"),
    (samples(current_now="zz"), "does not show current_now, power_now"),
    (energy.Samples({}, samples().rows[:70], 4.9, 8.0), "do not cover the run")])
def test_what_is_missing_is_said(given, said):
    found = energy.measured(RESULT, given)
    assert said in found.notes[0] and set(found.metrics.values()) == {None}


def test_of_several_requests_it_is_not_known_which_is_when():
    found = energy.measured(RESULT | {"requests": [{}, {}]}, samples())
    assert "the run served 2 requests" in found.notes[0] and set(found.metrics.values()) == {None}


def test_current_and_voltage_that_are_never_shown_together_are_no_power():
    given = samples()
    for at, row in enumerate(given.rows):
        del row["battery"]["current_now" if at % 2 else "voltage_now"]
    assert "does not show power_now" in energy.measured(RESULT, given).notes[0]


def test_a_status_that_is_not_shown_is_said():
    found = energy.measured(RESULT, samples(lambda t: t, status=None))
    assert found.metrics["mean_power_w"] and "it is assumed to discharge" in found.notes[0]


def test_files_that_are_cut_or_garbage_are_read_as_far_as_they_go(tmp_path):
    assert energy.read(tmp_path) is None
    (tmp_path / "when.json").write_text('{"began_s":1.5,"ended_s":2.5}')
    (tmp_path / "samples.jsonl").write_text('{"vitro_samples":1,"battery":"b"}\nzz\n{"t":2,"battery":{}}\n[1]\n{"t":1,"battery":{"te')
    found = energy.read(tmp_path)
    assert found.header["battery"] == "b" and [row["t"] for row in found.rows] == [2] and (found.began, found.ended) == (1.5, 2.5)
    (tmp_path / "when.json").write_text('{"began_s":null,"ended_s":2}')
    assert energy.read(tmp_path) is None


@pytest.fixture
def phone(native, tmp_path):
    """A bundle whose program is a stand-in that takes the time that its result says. -> (suite, a function that runs it)"""
    suite = native.write(f"""
suite: one
models: {{tiny: {{gguf: {ROOT}/configs/models/embedded/stories-reglu-3m.f16.gguf}}}}
base: {{workload: {{prompt: "Once upon", output_tokens: 11}}}}
experiments: [{{model: tiny, engine.policy: dense}}]
""", "suite.yaml")
    result = native("run", ROOT / "experiments/quickstart.yaml", "--machine", "host", "--set", "workload.prompt=Once upon",
                    "--set", "workload.output_tokens=11", "--json").json
    result |= {"experiment": "tiny-policy=dense", "machine_state": {"throttled": None, "samples": [{"at_s": 0}, {"at_s": 1.5}]}}
    result["metrics"] |= {"load_ms": 300, "ttft_ms": 200}
    result["steps"]["latency_ms"] = [100] * 10
    (tmp_path / "result.json").write_text(json.dumps(result))
    program = tmp_path / "device.sh"
    program.write_text(f"#!/bin/sh\nsleep 1.5\ncat {tmp_path}/result.json\n")
    program.chmod(0o755)
    assert native("bundle", suite, "--out", "b.tar.gz", "--binary", program, "--runs", 2).code == 0
    subprocess.run(["tar", "xzf", tmp_path / "b.tar.gz", "-C", tmp_path], check=True)

    def run(root, **env):
        variables = os.environ | {"SYS": str(root), "INTERVAL": "0.1"} | env
        subprocess.run(["sh", tmp_path / "vitro-bundle/run.sh"], env=variables, check=True, capture_output=True)
        return tmp_path / "vitro-bundle/results"

    return suite, run


@pytest.mark.all
def test_a_rehearsal_from_the_bundle_to_joules_per_token(native, phone, tmp_path):
    suite, run = phone
    results = run(tree(tmp_path / "sys", PHONE))
    assert not list(results.glob("*/traced/samples.jsonl")) and len(list(results.glob("*/*/samples.jsonl"))) == 2
    words = ("validate", suite, "--device", ROOT / "configs/devices/oneplus12.yaml", "--host-results", results)
    row = native(*words, "--cells", 2, "--json").json["rows"][0]
    assert row["host"]["energy_j_per_token"] == pytest.approx(0.8, rel=1e-3) and row["host"]["mean_power_w"] == pytest.approx(8, rel=1e-3)
    assert row["sim"]["energy_j_per_token"] > 0 and row["relative_error"]["energy_j_per_token"] is not None
    about = row["energy_runs"][0]
    assert 0 < about["rate_hz"] < 11 and about["slack_s"] >= 0 and len(row["energy_runs"]) == 2
    shown = native(*words, "--out", "report").out
    assert "Measured at the battery" in (tmp_path / "report/report.html").read_text()
    assert "energy: measured and oneplus12" in shown and "changed 0 times" in shown and "current_now x voltage_now" in shown


@pytest.mark.all
def test_a_rehearsal_without_a_battery_says_so(native, phone, tmp_path):
    suite, run = phone
    results = run(tree(tmp_path / "sys"))
    answer = native("validate", suite, "--device", ROOT / "configs/devices/oneplus12.yaml", "--host-results", results)
    assert answer.code == 0 and "energy was not measured: the system does not show current_now, voltage_now, power_now" in answer.out
