"""The command line's promises: examples in every help, exit codes, one message, JSON alone on stdout."""
import os
import subprocess
import sys

import pytest

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
    assert any(line.split()[:3] == ["oneplus13t", "12", "GB"] for line in table.splitlines())
    name = next(word for line in table.splitlines() for word in line.split() if word.endswith("/oneplus13t"))
    model = "model=vitro:models/embedded/stories-reglu-3m.f16.gguf"
    answer = native("run", native.write(), "--set", f"device={name}", "--set", model, "--json")
    assert answer.code == 0 and answer.json["experiment_resolved"]["device"]["name"] == "oneplus13t", answer.err
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
