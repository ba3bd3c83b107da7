"""`vitro run`: what it prints and leaves, its exit codes, what it says of a wrong experiment, and how it ends."""
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT


def test_run_json_is_one_object_and_nothing_else(fake):
    answer = fake("run", fake.write(), "--json")
    assert answer.code == 0
    assert answer.json["schema"] == "vitro.result/1"
    assert answer.json["wall_s"] > 0
    assert "a library printed this" not in answer.out + answer.err


def test_run_prints_metrics_and_text(fake):
    answer = fake("run", fake.write())
    assert answer.code == 0
    assert "decode_tokens_per_s" in answer.out and "Lily" in answer.out


def test_run_prints_a_metric_under_its_present_name_alone(native):
    args = ["run", ROOT / "experiments/quickstart.yaml", "--set", "workload.output_tokens=2"]
    answer = native(*args)
    assert answer.code == 0 and "unit_submissions_per_token" in answer.out and "seam_calls" not in answer.out, answer.err
    metrics = native(*args, "--json").json["metrics"]
    assert metrics["seam_calls_per_token"] == metrics["unit_submissions_per_token"]
    assert "seam_calls_per_token" in native(*args, "--set", "metrics=[seam_calls_per_token]").out
    assert "exposed_io_share" in answer.out and " io_share" not in answer.out
    assert metrics["io_share"] == metrics["exposed_io_share"] is not None


def test_machine_and_set_override_the_file(fake):
    answer = fake("run", fake.write(), "--json", "--machine", "host", "--set", "memory.budget=5 MiB", "--set", "seed=7")
    assert answer.json["machine"] == "host"
    assert answer.json["seed"] == 7
    assert answer.json["experiment_resolved"]["memory"] == {"budget": "5 MiB"}


def test_resolve_prints_the_experiment_and_runs_nothing(fake):
    answer = fake("run", fake.write(), "--resolve", "--machine", "host", "--set", "fake.crash=true")
    assert answer.code == 0
    assert answer.json["machine"] == "host"


def test_out_leaves_result_trace_decisions_and_report(fake, tmp_path):
    assert fake("run", fake.write(), "--out", "here/there").code == 0
    names = {path.name for path in (tmp_path / "here/there").iterdir()}
    assert names == {"result.json", "trace.json", "decisions.jsonl", "report.html"}


def test_broken_yaml_names_file_and_line(fake):
    answer = fake("run", fake.write("experiment: x\n  bad: [\n"))
    assert answer.code == 2
    assert "exp.yaml:2" in answer.err


@pytest.mark.parametrize("lines, said", [
    ("expect:\n  a: 3", "exp.yaml:3: expect.a: 3 names no metric"),
    ("expect:\n  a:\n    metric: speed\n    min: 3", "exp.yaml:4: expect.a.metric: 'speed' is not a metric"),
    ("metrics:\n  - speed", "exp.yaml:3: metrics: 'speed' is not a metric"),
])
def test_what_the_command_line_reads_is_named_by_file_and_line(fake, lines, said):
    answer = fake("run", fake.write(f"experiment: x\n{lines}\n"))
    assert answer.code == 2 and said in answer.err, answer.err


def test_what_a_run_alone_can_judge_is_named_by_file_and_line(native):
    lines = ["experiment: x", f"device: {ROOT}/configs/devices/oneplus12.yaml",
             f"model: {{gguf: {ROOT}/configs/models/embedded/stories-reglu-3m.f16.gguf}}", "engine:", "  policy: mmap", "  units: [cpu0]",
             "workload: {prompt: Once, output_tokens: 2}", "memory:", "  budget: 1 B"]
    path = native.folder / "exp.yaml"
    path.write_text("\n".join(lines) + "\n")
    answer = native("run", path)
    assert answer.code == 2 and "exp.yaml:9: memory.budget: " in answer.err, answer.err
    answer = native("run", path, "--machine", "host", "--set", "memory.budget=8 MiB", "--set", "engine.products.isa=avx9")
    assert answer.code == 2 and 'vitro: --set engine.products.isa:1: engine.products.isa: "avx9" is unknown' in answer.err, answer.err
    answer = native("run", path, "--set", "memory=null", "--set", "engine.units=[cpu99]")
    assert answer.code == 2 and 'vitro: --set engine.units:1: engine.units: oneplus12 has no "cpu99"' in answer.err, answer.err
    path.write_text("\n".join(lines[:-2]).replace("[cpu0]", "[cpu99]") + "\n")
    answer = native("run", path)
    assert answer.code == 2 and 'exp.yaml:6: engine.units: oneplus12 has no "cpu99"' in answer.err, answer.err


def test_failed_run_is_exit_1(fake):
    answer = fake("run", fake.write(), "--json", "--set", "fake.fail=the flash is gone")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "vitro: the flash is gone\n"


def test_crash_is_exit_1_and_names_the_signal_and_exit_reason(fake):
    answer = fake("run", fake.write(), "--set", "fake.crash=true")
    assert answer.code == 1
    assert "SIGSEGV" in answer.err and "about to crash" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("expect, code", [
    ("{metric: ttft_ms, max: 100}", 0),
    ("{metric: ttft_ms, max: 0.001}", 1),
    ("{metric: decode_tokens_per_s, min: 1}", 0),
    ("{metric: decode_tokens_per_s, value: 1, within: 15%}", 1),
    ("{metric: energy_j_per_token, value: 0.002, within: 1%}", 0),
    ("{metric: speed, max: 1}", 2),
    ("{metric: ttft_ms}", 2),
])
def test_expectations_decide_the_exit_code(fake, expect, code):
    path = fake.write(f"experiment: x\nexpect: {{speed: {expect}}}\n")
    assert fake("run", path, "--json").code == code


def test_an_expectation_may_be_what_a_paper_published(fake):
    path = fake.write("experiment: x\nexpect: {pi2_t6_bamboo_tps: {metric: decode_tokens_per_s, within: 1000000%}}\n")
    answer = fake("run", path)
    assert answer.code == 0 and "expect pi2_t6_bamboo_tps: decode_tokens_per_s" in answer.out and "= 11.1: ok" in answer.out


def test_metrics_name_what_the_table_shows(fake):
    path = fake.write("experiment: x\nmetrics: [ttft_ms, token_latency_ms]\nsweep: {seed: [1, 2]}\n")
    rows = [line.split()[0] for line in fake("run", path).out.splitlines()[2:] if line.split()[1:]]
    assert rows[0] == "ttft_ms" and rows[1].startswith("token_latency_ms.") and "decode_tokens_per_s" not in rows
    header = fake("sweep", path, "--out", "o").out.splitlines()[1].split()
    assert header[:3] == ["point", "seed", "ttft_ms"] and header[-1] == "status" and "decode_tokens_per_s" not in header
    wrong = fake("run", path, "--set", "metrics=[speed]")
    assert wrong.code == 2 and "metrics: 'speed' is not a metric" in wrong.err


def test_ctrl_c_ends_the_run_and_its_process(fake):
    path = fake.write("experiment: x\nfake: {sleep: 60}\n")
    child = subprocess.Popen([sys.executable, "-m", "vitro", "run", str(path)], env=fake.env, cwd=fake.folder, stderr=subprocess.PIPE,
                             start_new_session=True,  # and whoever started these tests may ignore SIGINT, as a shell does behind `&`
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    workers = f"/proc/{child.pid}/task/{child.pid}/children"
    while not (pids := open(workers).read().split()):
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err == b"vitro: interrupted\n"
    for pid in pids:
        for _ in range(200):  # the kernel may still be tearing it down, and whoever adopts it has to reap it
            if not running(pid):
                break
            time.sleep(0.05)
        assert not running(pid)


def running(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
