"""The command line's promises: examples in every help, exit codes, one message, JSON alone on stdout."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

COMMANDS = [["run"], ["sweep"], ["search"], ["sensitivity"], ["tasks"], ["perplexity"],
            ["tokenize"], ["graph"], ["quantize"], ["merge"], ["convert"], ["pack"], ["bench"],
            ["characterize"], ["list"], ["trace"], ["trace", "summary"],
            ["trace", "query"], ["trace", "diff"], ["trace", "replay"], ["demo"], ["workload"],
            ["predictors"],
            ["quality"], ["plan"], ["profile"], ["make-model"], ["calibrate"], ["validate"], ["bundle"], ["reproduce"], ["tiles"]]


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_help_shows_examples(fake, command):
    answer = fake(*command, "--help")
    assert answer.code == 0
    assert "Examples" in answer.out
    assert "vitro " + " ".join(command) in answer.out


def test_a_command_loads_what_it_needs_itself(fake):
    """Packages that take long to import are for the commands that use them."""
    code = ("import sys; from vitro.cli import main; main(['run', 'none.yaml']); "
            "print(*{'matplotlib', 'numpy', 'pandas', 'dask'} & set(sys.modules))")
    run = subprocess.run([sys.executable, "-c", code], env=fake.env, cwd=fake.folder, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("\n", "vitro: none.yaml: no such file\n")


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


@pytest.mark.parametrize("args, part", [
    (["run"], "EXP.yaml"),
    (["run", "nowhere.yaml"], "nowhere.yaml: no such file"),
    (["run", "."], ".: is a folder"),
    (["run", "exp.yaml", "--machine", "gpu"], "neither sim nor host"),
    (["run", "exp.yaml", "--set", "no-equals"], "key=value"),
    (["run", "exp.yaml", "--set", b"seed=\xff"], "is not UTF-8 text"),
    (["run", b"\xff.yaml"], "is not UTF-8 text"),
    (["run", "exp.yaml", "--set", "typo=1"], "typo: unknown key"),
    (["run", "exp.yaml", "--frobnicate"], "--frobnicate"),
    (["run", "exp.yaml", "--set", "expect=3"], "expect: is not a map"),
    (["run", "exp.yaml", "--set", "expect={a: 3}"], "expect.a: 3 names no metric"),
    (["run", "exp.yaml", "--set", "expect={a: {metric: ttft_ms}}"], "expect.a: needs value"),
    (["run", "exp.yaml", "--set", "expect={a: {metric: ttft_ms, min: soon}}"], 'expect.a.min: "soon" is not a number'),
    (["run", "exp.yaml", "--set", "expect={a: {metric: ttft_ms, most: 1}}"], "expect.a.most: unknown key"),
    (["run", "exp.yaml", "--set", "expect={a: {metric: ttft_ms, within: 1%}}"], "expect.a: is not a single number in"),
    (["run", "exp.yaml", "--set", "expect={npumoe_table6_ours_wall: {metric: ttft_ms, within: 1%}}"], "kept back"),
    (["sweep", "exp.yaml", "--out", "o", "--set", "sweep={seed: [1]}", "--set", "expect={a: []}"], "expect.a: [] names no metric"),
    (["frobnicate"], "frobnicate"),
    (["sweep", "exp.yaml", "--out", "o"], "no `sweep:`"),
    (["sweep", "exp.yaml", "--out", "o", "--workers", "0"], "--workers"),
    (["tokenize", "nowhere.gguf"], "no such file"),
    (["perplexity", "exp.yaml", "nowhere.txt"], "nowhere.txt"),
    (["quantize", "exp.yaml", "b", "--scheme", "q3"], "q8_0, q4_0"),
    (["quantize"], "--scheme"),
    (["bench", "everything"], "kernels"),
    (["list", "dragons"], "devices"),
    (["graph", "exp.yaml", "--out", "g.bmp"], ".svg"),
    (["trace", "summary", "exp.yaml"], "is not a Perfetto trace"),
    (["trace", "diff", "exp.yaml", "exp.yaml"], "exp.yaml:1: is not a decision"),
    (["trace", "diff", "bytes", "bytes"], "bytes:1: is not a decision"),
    (["validate", "bytes", "--device", "exp.yaml"], "bytes: is not a text file"),
    (["run", "exp.yaml", "--out", "exp.yaml"], "exp.yaml is a file (expected a folder)"),
    (["run", "exp.yaml", "--out", "/proc/out"], "/proc/out can not be written"),
    (["sweep", "exp.yaml", "--set", "sweep={seed: [1]}", "--out", "exp.yaml/out"], "exp.yaml is a file (expected a folder)"),
    (["quantize", "exp.yaml", ".", "--scheme", "q8_0"], ". is a folder (expected a file to write)"),
    (["merge", "exp.yaml", "exp.yaml", "nowhere/m.gguf"], "nowhere/m.gguf can not be written"),
    (["graph", "exp.yaml", "--out", "nowhere/g.svg"], "nowhere/g.svg can not be written: No such file"),
    (["make-model", "nowhere/x.gguf", "--preset", "tiny"], "nowhere/x.gguf can not be written"),
    (["profile", "exp.yaml", "exp.yaml", "-o", "nowhere/x.vtrc"], "nowhere/x.vtrc can not be written"),
    (["pack", "exp.yaml", "nowhere/x.vpack"], "nowhere/x.vpack can not be written"),
    (["plan", "exp.yaml", "--device", "exp.yaml", "-o", "nowhere/p.yaml"], "nowhere/p.yaml can not be written"),
    (["calibrate", "--out", "nowhere/host.yaml"], "nowhere/host.yaml can not be written"),
    (["bundle", "exp.yaml", "--out", "nowhere/b.tar.gz"], "nowhere/b.tar.gz can not be written"),
    (["predictors", "exp.yaml", "exp.yaml", "-o", "nowhere/p.gguf"], "nowhere/p.gguf can not be written"),
    (["run", "exp.yaml", "--out", b"\xff"], "is not UTF-8 text"),
    (["sweep", "exp.yaml", "--set", "sweep={seed: [1]}", "--out", b"\xff"], "is not UTF-8 text"),
    (["quantize", "exp.yaml", b"\xff.gguf", "--scheme", "q8_0"], "is not UTF-8 text"),
    (["list", "plugins", "--plugin", b"\xff.so"], "is not UTF-8 text"),
    (["plan", "exp.yaml", "--device", b"\xff.yaml", "-o", "p.yaml"], "is not UTF-8 text"),
    (["run", "pipe"], "pipe: is no regular file"),
    (["run", "/dev/zero"], "/dev/zero: is no regular file"),
    (["validate", "/dev/zero", "--device", "exp.yaml"], "/dev/zero: is no regular file"),
    (["trace", "summary", "pipe"], "pipe: is no regular file"),
    (["trace", "diff", "/dev/zero", "pipe"], "/dev/zero: is no regular file"),
    (["tasks", "exp.yaml", "/dev/zero", "--out", "o"], "/dev/zero: is no regular file"),
    (["quantize", "exp.yaml", "pipe", "--scheme", "q8_0"], "pipe is no regular file (expected a file to write)"),
    (["plan", "exp.yaml", "--device", "exp.yaml", "-o", "pipe"], "pipe is no regular file (expected a file to write)"),
    (["sweep", "exp.yaml", "--out", "o", "--trace", "\u00b2"], "expected the number of a point"),
])
def test_wrong_input_is_exit_2_with_one_message(fake, args, part):
    fake.write(name="exp.yaml")
    (fake.folder / "bytes").write_bytes(b"\xf4\xff")
    os.mkfifo(fake.folder / "pipe")  # stands for devices, too, such as /dev/null: neither is waited for, nor replaced by a file
    answer = fake(*args)
    assert (fake.folder / "pipe").is_fifo()
    assert answer.code == 2
    assert part in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""


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


def test_a_message_does_not_steer_the_terminal(fake):
    answer = fake("run", fake.write('experiment: x\n"\\e[2Jred": 1\n'))
    assert answer.code == 2 and "\\x1b[2Jred: unknown key" in answer.err and "\x1b" not in answer.err


@pytest.mark.parametrize("streams, code", [("1>&-", 0), ("2>&-", 0), ("0<&-", 0), ("0<&- 1>&- 2>&-", 0), (">/dev/full", 1)])
def test_streams_that_are_closed_or_full_are_no_crash(fake, streams, code):
    fake.write(name="exp.yaml")
    run = subprocess.run(["bash", "-c", f"{sys.executable} -m vitro run exp.yaml {streams}"], env=fake.env, cwd=fake.folder,
                         capture_output=True, text=True)
    assert run.returncode == code and "Traceback" not in run.stderr, run.stderr


def test_signs_that_the_terminal_lacks_are_written_out(fake):
    answer = subprocess.run([sys.executable, "-m", "vitro", "run", fake.write("experiment: caf\u00e9\n")], capture_output=True, text=True,
                            cwd=fake.folder, env=fake.env | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert answer.returncode == 0 and answer.stdout.startswith("caf\\xe9 on sim"), answer.stderr


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
                             start_new_session=True)
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
    except FileNotFoundError:
        return False


def test_tokenize_reads_bytes_from_stdin(fake):
    answer = fake("tokenize", fake.write(), "--json", stdin=b"\xff\x00a")
    assert answer.json == {"ids": [255, 0, 97]}
    assert fake("tokenize", fake.write(), stdin=b"ab").out == "97 98\n"


def test_perplexity(fake):
    answer = fake("perplexity", fake.write(), fake.write("abc", "text"), "--json")
    assert answer.json == {"nll": 1.5, "perplexity": 4.4817, "tokens": 3, "chunks": [{"nll": 4.5, "tokens": 3}]}


def test_quantize_writes_the_file(fake, tmp_path):
    answer = fake("quantize", fake.write("abcdef", "in"), "out", "--scheme", "q4_0", "--json")
    assert answer.json == {"target": "out", "scheme": "q4_0", "source_bytes": 6, "target_bytes": 3}
    assert (tmp_path / "out").read_bytes() == b"ace"


def test_quantize_lists_schemes(fake):
    assert {row["name"] for row in fake("quantize", "--list", "--json").json["rows"]} == {"q8_0", "q4_0"}


def test_graph_draws(fake, tmp_path):
    assert fake("graph", fake.write()).out == "digraph g { a -> b }\n"
    assert fake("graph", fake.write(), "--out", "g.svg").code == 0
    assert "</svg>" in (tmp_path / "g.svg").read_text()


def test_bench_rows_carry_their_limit(fake):
    row = fake("bench", "kernels", "--json").json["rows"][0]
    assert set(row) >= {"name", "value", "unit", "limit", "fraction_of_limit"}


@pytest.mark.parametrize("kind", ["devices", "models", "policies", "kernels", "plugins"])
def test_list_knows_every_kind(fake, kind):
    answer = fake("list", kind, "--json")
    assert answer.code == 0
    assert all({"name", "description"} <= set(row) for row in answer.json["rows"])


@pytest.mark.parametrize("command", [[], ["trace"]])
def test_a_command_alone_prints_its_help_and_nothing_beside(fake, command):
    answer = fake(*command)
    assert answer.code == 2 and "Commands" in answer.out and answer.err == ""


def test_a_list_names_files_as_an_experiment_would(native):
    table = native("list", "devices").out
    path = next(word for line in table.splitlines() for word in line.split() if word.endswith("oneplus13t.yaml"))
    assert (native.folder / path).is_file()
    assert native("list", "plugins").out == "plugins: none\n"


def test_version(fake):
    assert fake("--version").out == "vitro 0.1.0\n"


def test_versions_of_everything(fake):
    said = fake("--version", "--verbose").out
    assert said.startswith("vitro 0.1.0")
    for part in ("engine: ", "SHA-256", "\n  numpy ", "\nDebian packages:\n", "\n  libsystemc-dev "):
        assert part in said
    alone = fake("--verbose")
    assert alone.code == 2 and alone.err == "vitro: Invalid value for --verbose: can only be used with --version (see --help)\n"
