"""SystemC modules of others in a device: the commands of docs/guide/plugins.md, the example, and what goes wrong."""
import os
import re
import subprocess
import sys

import pytest
import vitro
from conftest import ROOT, Command, environment

EXAMPLE = ROOT / "examples" / "tlm"
GUIDE = ROOT / "docs" / "guide" / "plugins.md"
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
FLOW = "device.dram={bandwidth: 59.6 GB/s, capacity: 24 GB, available: 19 GB}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, has_native):
    """A folder as the guide sees it, in which its commands have run. -> (folder, environment, what the commands said)"""
    folder = tmp_path_factory.mktemp("tlm")
    for name in ("configs", "experiments"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "examples" / "tlm").mkdir(parents=True)
    for path in EXAMPLE.iterdir():
        if path.is_file():
            (folder / "examples" / "tlm" / path.name).write_bytes(path.read_bytes())
    (folder / "bin").mkdir()
    (folder / "bin" / "vitro").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vitro "$@"\n')
    (folder / "bin" / "vitro").chmod(0o755)
    env = environment(ROOT / "python") | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CMAKE_BUILD_PARALLEL_LEVEL": "1"}
    said = ""
    for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        run = subprocess.run(["bash", "-e", "-c", block], cwd=folder, env=env, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, f"{block}\n{run.stdout[-2000:]}{run.stderr[-4000:]}"
        said += run.stdout
    return folder, env, said


@pytest.fixture(scope="module")
def faulty(checkout):
    """The target of the C++ tests, whose key `fault` says what it does wrong."""
    folder = checkout[0] / "faulty"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(faulty LANGUAGES CXX)\n"
                                           "find_package(vitro REQUIRED)\n"
                                           f"vitro_tlm_plugin(faulty {ROOT}/tests/hw_models/tlm/plugins/faulty.cpp)\n")
    for words in (["cmake", "-S", folder, "-B", folder / "build", f"-Dvitro_DIR={ROOT / 'cmake'}"], ["cmake", "--build", folder / "build"]):
        subprocess.run(words, env=checkout[1], check=True, capture_output=True)
    return folder / "build" / "faulty.so"


def run(checkout, *overrides, tokens=2):
    words = [word for text in overrides for word in ("--set", text)]
    command = Command(checkout[1], checkout[0])
    phone = ("--set", "device=examples/tlm/phone.yaml", "--set", f"workload.output_tokens={tokens}")
    return command("run", QUICKSTART, "--json", *phone, *words)


def result(checkout, *overrides):
    answer = run(checkout, *overrides)
    assert answer.code == 0, answer.err
    return answer.json


def speed(row):
    return row["metrics"]["decode_tokens_per_s"]


@pytest.mark.all
def test_the_guide_lists_what_is_in_the_plugins(checkout):
    assert "banks with open rows behind one bus; for `model: tlm`" in checkout[2]
    for text in re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        assert text.strip() in checkout[2]


@pytest.mark.parametrize("protocol", [pytest.param("loosely_timed", marks=pytest.mark.all), "approximately_timed"])
def test_equal_runs_are_equal_and_near_the_flow_model(checkout, protocol):
    mine = [f"device.dram.protocol={protocol}", "device.initiators.display=null"]
    first, again = result(checkout, *mine), result(checkout, *mine)
    flow = result(checkout, FLOW, "device.initiators.display=null")
    assert first["event_hash"] == again["event_hash"] != flow["event_hash"]
    assert first["tokens"] == flow["tokens"]
    assert speed(first) == pytest.approx(speed(flow), rel=0.05)
    slow = result(checkout, *mine, "device.dram.bus=12 GB/s")
    assert speed(slow) < 0.7 * speed(first)


@pytest.mark.parametrize("style", ["phases", "blocking"])
def test_more_traffic_makes_it_slower(checkout, style):
    rates = ["1 GB/s", "10 GB/s", "40 GB/s"]
    rows = [result(checkout, f"device.initiators.display.rate={rate}", f"device.initiators.display.style={style}",
                   "device.initiators.display.size=1 KiB") for rate in rates]
    assert speed(rows[0]) > speed(rows[1]) > speed(rows[2])
    assert rows[2]["event_hash"] == result(checkout, f"device.initiators.display.rate={rates[2]}", "device.initiators.display.size=1 KiB",
                                           f"device.initiators.display.style={style}")["event_hash"]
    assert any(note.startswith("display moved 1.00 GB/s") for note in rows[0]["notes"])


def test_an_initiator_loads_the_flow_model_too(checkout):
    narrow = "device.dram={bandwidth: 20 GB/s, capacity: 24 GB, available: 19 GB}"
    alone = result(checkout, narrow, "device.initiators.display=null")
    loaded = result(checkout, narrow, "device.initiators.display.rate=10 GB/s")
    assert speed(loaded) < 0.8 * speed(alone)


def test_flash_reaches_the_target(checkout):
    paging = ["engine.policy=mmap", "memory.budget=6 MiB", "device.initiators.display=null"]
    fast, slow = result(checkout, *paging), result(checkout, *paging, "device.dram.bus=1 GB/s")
    assert fast["metrics"]["flash_bytes_read"]["decode"] > 0
    assert speed(slow) < 0.5 * speed(fast)


FAULTS = {"silent": "did not answer a ", "throws": "row 7 is worn out", "error": "with TLM_GENERIC_ERROR_RESPONSE",
          "stops": "called sc_stop() at 10 us", "reports": "acme/dram: the clock is lost"}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_target_does_wrong_ends_the_run(checkout, faulty, fault):
    answer = run(checkout, f"device.dram={{model: tlm, plugin: {faulty}, fault: {fault}, capacity: 1 GB, available: 1 GB}}")
    assert answer.code == 1 and FAULTS[fault] in answer.err, answer.err
    assert answer.err.count("\n") == 1


def test_a_target_may_pause_the_kernel(checkout, faulty):
    dram = f"model: tlm, plugin: {faulty}, capacity: 1 GB, available: 1 GB"
    calm, pausing = (result(checkout, f"device.dram={{{dram}, fault: {fault}}}") for fault in ("none", "pauses"))
    assert calm["event_hash"] == pausing["event_hash"]


WRONG = {
    "device.dram.bank=8": "dram.bank: unknown key",
    "device.dram.banks=0": "dram.banks: must be 1 or more",
    "device.dram.plugin=build/none.so": "build/none.so\" is not a file (looked for ",
    "device.dram.plugin=examples/tlm/build/traffic.so": "has no TLM target, but a TLM initiator",
    "device.initiators.display.plugin=examples/tlm/build/bank_dram.so": "has no TLM initiator, but a TLM target",
    "device.initiators.display.model=radar": 'there is no model "radar.flow" (expected one of: tlm_initiator.detailed)',
    "device.initiators.display.depth=0": "initiators.display.depth: must be from 1 to 256",
    "plugins=[examples/tlm/build/bank_dram.so]": "holds SystemC modules (expected its path behind `plugin:`",
}


@pytest.mark.parametrize("override", WRONG)
def test_what_is_wrong_in_the_device_is_one_message(checkout, override):
    answer = run(checkout, override)
    assert answer.code == 2 and WRONG[override] in answer.err, answer.err
    assert answer.err.count("\n") == 1


def test_a_saved_device_keeps_its_plugins(checkout, tmp_path):
    vitro.Device(checkout[0] / "examples/tlm/phone.yaml").save(tmp_path / "copy.yaml")
    tree = vitro.Device(tmp_path / "copy.yaml").tree
    build = checkout[0] / "examples/tlm/build"
    assert tree["dram"]["plugin"] == str(build / "bank_dram.so") and tree["initiators"]["display"]["plugin"] == str(build / "traffic.so")
