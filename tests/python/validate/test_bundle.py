"""`vitro bundle`: what is packed runs where there is no vitro, and its results are read back."""
import json
import os
import shutil
import subprocess
import tarfile

import pytest
from conftest import ROOT

DEVICE = ROOT / "build" / "release" / "engine" / "app" / "vitro-device"
AARCH64 = ROOT / "build" / "aarch64" / "engine" / "app" / "vitro-device"


@pytest.fixture
def suite(native):
    return native.write(f"""
suite: one
models: {{tiny: {{gguf: {ROOT}/configs/models/embedded/stories-reglu-3m.f16.gguf}}}}
base: {{workload: {{prompt: "Once upon", output_tokens: 4}}}}
experiments:
  - {{model: tiny, engine.policy: [dense]}}
  - {{model: tiny, engine.policy: mmap, memory.ffn_in_dram: 50%}}
""", "suite.yaml")


@pytest.mark.parametrize("binary, runner", [(DEVICE, ""), (AARCH64, "qemu-aarch64")], ids=["here", "aarch64"])
def test_a_bundle_runs_and_its_results_are_read_back(native, suite, tmp_path, binary, runner):
    if not binary.exists() or (runner and not shutil.which(runner)):
        pytest.skip(f"{binary.parts[-4]} is not built, or {runner or 'nothing'} is missing")
    made = native("bundle", suite, "--out", "b.tar.gz", "--binary", binary, "--runs", 2, "--json").json
    assert made["experiments"] == ["tiny-policy_dense", "tiny-policy_mmap-ffn_in_dram_50_"]
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extractall(tmp_path)
    run = subprocess.run(["sh", tmp_path / "vitro-bundle" / "run.sh"], env=os.environ | {"RUNNER": runner}, capture_output=True,
                         timeout=280)
    assert run.returncode == 0, run.stderr.decode()
    results = tmp_path / "vitro-bundle" / "results"
    data = json.loads((results / made["experiments"][1] / "2" / "result.json").read_text())
    assert data["experiment"] == "tiny-policy=mmap-ffn_in_dram=50%" and data["machine_state"]["samples"]
    answer = native("validate", suite, "--device", ROOT / "configs/devices/oneplus12.yaml", "--host-results", results, "--json").json
    assert answer["summary"]["n"] == 2
    for row in answer["rows"]:
        assert row["tokens_equal"] and row["bytes_equal"] and row["decisions"]["equal"] and len(row["host_runs"]) == 2, row


def test_a_bundle_needs_a_binary(native, suite):
    answer = native("bundle", suite, "--out", "b.tar.gz", "--binary", "nowhere")
    assert answer.code == 2 and "nowhere" in answer.err and "ninja -C build/release vitro-device" in answer.err


def test_results_of_another_suite_are_refused(native, suite, tmp_path):
    (tmp_path / "results" / "x").mkdir(parents=True)
    answer = native("validate", suite, "--device", ROOT / "configs/devices/oneplus12.yaml", "--host-results", tmp_path / "results")
    assert answer.code == 2 and "has no result of this suite" in answer.err
