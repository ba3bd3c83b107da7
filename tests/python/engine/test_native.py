"""The real extension module through the package: what the models' trainer computed, and what both machines must agree on."""
import ctypes
import json
import re
import resource
import subprocess
import sys

import gguf
import numpy as np
import pytest
import vitro
from conftest import ROOT

MODELS = ROOT / "configs" / "models" / "embedded"
REGLU = MODELS / "stories-reglu-3m.f16.gguf"
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
REFERENCE = json.loads((MODELS / "reference.json").read_text())


@pytest.mark.parametrize("machine", ["host", "sim"])
def test_greedy_tokens_are_the_references(native, machine):
    expected = REFERENCE["models"][REGLU.name]["greedy"][0]
    answer = native("run", QUICKSTART, "--machine", machine, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["tokens"] == expected["ids"]
    assert answer.json["text"] == expected["text"]
    assert answer.json["machine"] == machine


def test_python_of_the_readme_runs(native, tmp_path, monkeypatch):
    for name in ("experiments", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(code, {})
    assert (tmp_path / "gantt.svg").exists() and (tmp_path / "out/first/result.json").exists()


def test_policies_and_budgets_do_not_change_tokens(native):
    results = [vitro.run(QUICKSTART, machine="sim", overrides=overrides)
               for overrides in ({"engine.policy": "dense"}, {"engine.policy": "mmap", "memory.budget": "6 MiB"})]
    assert results[0].tokens == results[1].tokens
    assert results[1].metric("peak_memory_bytes") <= 6 * 2 ** 20
    assert results[1].metric("flash_bytes_read.decode") > 0
    assert results[1].metric("decode_tokens_per_s") < results[0].metric("decode_tokens_per_s")


def test_simulation_repeats_byte_for_byte(native, tmp_path):
    overrides = {"engine.policy": "mmap", "memory.budget": "6 MiB", "workload.output_tokens": 8}
    first, second = (vitro.run(QUICKSTART, machine="sim", overrides=overrides, out=tmp_path / name) for name in "ab")
    assert {key for key in first if first[key] != second[key]} <= {"wall_s"}
    for name in ("trace.json", "decisions.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_host_and_sim_decide_alike(native, tmp_path):
    overrides = {"engine.policy": "mmap", "memory.budget": "6 MiB", "workload.output_tokens": 8}
    for machine in ("host", "sim"):
        vitro.run(QUICKSTART, machine=machine, overrides=overrides, out=tmp_path / machine)
    answer = vitro.diff_decisions(tmp_path / "host", tmp_path / "sim")
    assert answer["equal"] and answer["count"][0] > 0


def test_tokenizer_is_the_references(native):
    for sample in REFERENCE["tokenizer"]["samples"]:
        answer = native("tokenize", REGLU, "--json", stdin=sample["text"].encode())
        assert answer.json["ids"] == sample["ids"]


def test_perplexity_is_the_references(native):
    answer = native("perplexity", REGLU, MODELS / "eval.txt", "--json")
    expected = REFERENCE["models"][REGLU.name]
    assert answer.json["tokens"] == expected["tokens"]
    assert answer.json["nll"] == pytest.approx(expected["nll"], rel=1e-4)


@pytest.mark.parametrize("override, part", [
    ("engine.policy=magic", "dense, mmap"),
    ("memory.budget=6", "no unit"),
    ("engine.units=[tpu]", "tpu"),
    ("workload.output_tokens=-1", "workload.output_tokens"),
    ("model=nowhere.gguf", "nowhere.gguf"),
    ("memory.budget=64 KiB", "memory.budget"),
])
@pytest.mark.parametrize("machine", ["host", "sim"])
def test_wrong_values_are_exit_2_with_one_message(native, override, part, machine):
    answer = native("run", QUICKSTART, "--machine", machine, "--set", override)
    assert (answer.code, answer.out) == (2, "")
    assert part in answer.err
    assert answer.err.count("\n") == 1


def test_a_wrong_key_names_file_and_line(native):
    answer = native("run", native.write("experiment: x\nmachine: host\nmodel: {gguf: a}\nworkload: {prompt: a}\nworklaod: {}\n"))
    assert answer.code == 2
    assert "exp.yaml:5" in answer.err and "worklaod" in answer.err


def test_a_file_that_is_no_model(native):
    answer = native("tokenize", native.write("not a model", "a.gguf"), stdin=b"x")
    assert answer.code == 2 and "a.gguf" in answer.err and answer.err.count("\n") == 1


def test_resolved_experiment_runs_again(native):
    resolved = native("run", QUICKSTART, "--resolve", "--set", "workload.output_tokens=4").json
    first = vitro.run(QUICKSTART, overrides={"workload.output_tokens": 4})
    assert vitro.run(resolved)["event_hash"] == first["event_hash"]


@pytest.mark.parametrize("kind", ["policies", "kernels", "devices", "models"])
def test_lists_are_not_empty(native, kind):
    assert native("list", kind, "--json").json["rows"]


def test_graph_is_graphviz(native, tmp_path):
    assert native("graph", REGLU).out.startswith("digraph")
    assert native("graph", REGLU, "--out", "g.svg").code == 0


def run_quantized(native, folder, schemes):
    for scheme in schemes:
        answer = native("quantize", REGLU, f"{scheme}.gguf", "--scheme", scheme)
        assert answer.code == 0, answer.err
        result = vitro.run(QUICKSTART, machine="host", overrides={"model": str(folder / f"{scheme}.gguf"), "workload.output_tokens": 4})
        assert len(result.tokens) == 4
    assert schemes


KINDS_OF_SCHEMES = ("q4_0", "q4_k", "w4g32z", "w4_channel")


@pytest.mark.all
def test_quantized_model_still_runs(native, tmp_path):
    run_quantized(native, tmp_path, KINDS_OF_SCHEMES)


@pytest.mark.all
def test_every_scheme_of_the_list_gives_a_model_that_runs(native, tmp_path):
    listed = [row["name"] for row in native("quantize", "--list", "--json").json["rows"]]
    groups = {name for name in listed if re.fullmatch(r"w\dg\d+z?", name)}
    assert len(groups) == 27  # alike but for numbers: one for each number of bits
    alone = {name for name in listed if name not in groups}
    run_quantized(native, tmp_path, sorted((alone | {"w1g32", "w2g64", "w3g128z", "w8g64z"}) - set(KINDS_OF_SCHEMES)))


@pytest.mark.parametrize("activations", ["float", pytest.param("int8", marks=pytest.mark.all)])
def test_outliers_give_both_machines_the_same_tokens(native, tmp_path, activations):
    """PowerInfer-2, section 7.6: also where rows of the embedding are read, and where tiles are not."""
    model = tmp_path / "outliers.gguf"
    vitro.quantize(REGLU, model, "w4_outliers", embedding="w4_outliers")
    overrides = {"model": str(model), "workload.output_tokens": 4, "engine.activations": activations}
    runs = [vitro.run(QUICKSTART, machine=machine, overrides=overrides | more)
            for machine, more in (("host", {}), ("sim", {}), ("host", {"engine.policy": "mmap"}))]
    assert len(runs[0].tokens) == 4 and [run.tokens for run in runs] == [runs[0].tokens] * 3


def test_a_file_whose_outliers_are_outside_of_its_rows_is_refused(native, tmp_path):
    vitro.quantize(REGLU, tmp_path / "good.gguf", "w4_outliers")
    tensor = next(t for t in gguf.GGUFReader(REGLU).tensors if t.name == "blk.0.ffn_up.weight")
    data = bytearray((tmp_path / "good.gguf").read_bytes())
    row, columns = outlier_row(tensor, data)
    data[row + 4:row + 6] = (columns + 1).to_bytes(2, "little")
    (tmp_path / "bad.gguf").write_bytes(data)
    for words in (("quantize", "bad.gguf", "out.gguf", "--scheme", "q8_0"), ("pack", "bad.gguf", "out.vpak")):
        answer = native(*words)
        assert answer.code == 2, words
        assert f"bad.gguf: {tensor.name}: damaged: row 0: outlier 0 is at column {columns + 1} (expected one below {columns})" in answer.err


def outlier_row(tensor, data):
    """-> (where the first row of a tensor of ours begins in a file in w4_outliers, its columns): by the bytes that the format says."""
    columns = int(tensor.shape[0])
    weights = np.frombuffer(tensor.data.tobytes(), np.float16)[:columns].astype(np.float32)
    apart = np.sort(np.argsort(-np.abs(weights), kind="stable")[:-(-columns // 100)]).astype("<u2").tobytes()
    at = bytes(data).index(apart) - 4
    return at, columns


def test_a_mixed_file_runs_with_its_embedding_in_flash(native, tmp_path):
    """MNN-LLM, section 4.2: bfloat16 rows from flash, the output matrix in int8, layers in int4."""
    mixed = tmp_path / "mixed.gguf"
    vitro.quantize(REGLU, mixed, "w4g64z", embedding="bf16", output="q8_0")
    overrides = {"model": str(mixed), "engine.activations": "int8", "workload.output_tokens": 4}
    dram = vitro.run(QUICKSTART, machine="host", overrides=overrides)
    flash = [vitro.run(QUICKSTART, machine=machine, overrides=overrides | {"engine.embedding": "flash"}) for machine in ("host", "sim")]
    assert [result.tokens for result in flash] == [dram.tokens] * 2
    rows = 512 * 256 * 2  # what is no longer in DRAM
    assert flash[0].metric("peak_memory_bytes") <= dram.metric("peak_memory_bytes") - rows


def test_formats_of_embedding_and_output_are_named_when_wrong(native):
    answer = native("quantize", REGLU, "out.gguf", "--scheme", "q4_0", "--output", "int4")
    assert answer.code == 2 and '--output: there is no format "int4"' in answer.err


@pytest.mark.parametrize("kind", ["kernels", "engine", pytest.param("sim", marks=pytest.mark.all)])
def test_bench_smoke(native, kind):
    rows = native("bench", kind, "--smoke", "--json").json["rows"]
    assert rows and all(row["value"] > 0 for row in rows)
    assert all(row["fraction_of_limit"] > 0 for row in rows if row["limit"])


def test_bench_measures_the_kernels_that_are_asked_for(native):
    rows = native("bench", "kernels", "--smoke", "--only", "neurons: matvec q4_0", "--json").json["rows"]
    assert {"neurons: matvec q4_0" in row["name"] for row in rows} == {True} and len(rows) == 8, "with two limits, of one and two threads"
    of_row = native("bench", "kernels", "--smoke", "--only", rows[1]["name"], "--json").json["rows"]
    assert [row["name"] for row in of_row[1::2]] == [row["name"] for row in rows[1::2]], "but for the limits, which name the fastest loop"
    missing, elsewhere = native("bench", "kernels", "--only", "q4"), native("bench", "sim", "--only", "sim.memory")
    assert missing.code == 2 and 'no row of the kernels begins with "q4"' in missing.err
    assert elsewhere.code == 2 and "--only" in elsewhere.err


def test_demo_holds_what_it_promises(native, tmp_path):
    answer = native("demo", "--out", "o")
    assert answer.code == 0, answer.out + answer.err
    assert "the same 48 tokens in all 6 runs" in answer.out
    assert (tmp_path / "o/report.html").stat().st_size > 50_000


def test_recorded_reads_replay_on_the_phone(native, tmp_path):
    recording = tmp_path / "run.rec"
    overrides = {"engine.policy": "mmap", "memory.budget": "6 MiB", "workload.output_tokens": 4, "engine.record": str(recording)}
    run = vitro.run(QUICKSTART, machine="sim", overrides=overrides)
    device = ROOT / "configs" / "devices" / "oneplus12.yaml"
    one, four = (native("trace", "replay", recording, "--device", device, "--depth", depth, "--json").json for depth in (1, 4))
    assert one["bytes"] == run.metric("flash_bytes_read.prefill") + run.metric("flash_bytes_read.decode")
    assert one["bytes"] == four["bytes"] and four["duration_s"] < one["duration_s"]
    answer = native("trace", "replay", recording, "--machine", "host")
    assert answer.code == 2 and "needs a file to read" in answer.err


def test_a_wrong_experiment_leaves_no_folder_behind(native, tmp_path):
    answer = native("run", QUICKSTART, "--set", "engine.policy=magic", "--out", tmp_path / "out")
    assert answer.code == 2
    assert not (tmp_path / "out").exists()


def test_the_graph_can_be_drawn(native, tmp_path):
    dot = native("graph", REGLU, "--dot").out
    assert dot.startswith("digraph") and "blk.3.ffn_down" in dot
    assert native("graph", REGLU, "--out", tmp_path / "graph.svg").code == 0
    assert "<svg" in (tmp_path / "graph.svg").read_text()


def test_memory_that_can_not_be_locked_ends_the_run(native):
    """With room for 1 MiB, three megabytes of weights do not fit. The superuser's right to lock anything is given up first."""
    libc, drop_from_bounding_set, ipc_lock = ctypes.CDLL(None), 24, 14  # prctl.h, capability.h

    def limited():
        libc.prctl(drop_from_bounding_set, ipc_lock, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
    command = [sys.executable, "-m", "vitro", "run", QUICKSTART, "--machine", "host", "--set", "memory.lock=true"]
    run = subprocess.run(command, env=native.env, preexec_fn=limited, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 1 and "memory.lock: " in run.stderr and "can not be locked in DRAM" in run.stderr, run.stderr


def test_what_each_turn_of_a_conversation_says_is_printed(native, tmp_path):
    path = tmp_path / "chat.yaml"
    path.write_text(f"""experiment: chat
machine: sim
device: {ROOT}/configs/devices/oneplus12.yaml
model: {{gguf: {REGLU}}}
workload:
  output_tokens: 6
  requests:
    - {{prompt: Once upon a time, keep_as: ann}}
    - {{continue: ann, prompt: Then the cat}}
""")
    answer = native("run", path)
    turns = native("run", path, "--json").json["requests"]
    assert answer.code == 0 and "times above are of the last one" in answer.out
    for turn in turns:
        assert turn["text"].strip() in answer.out
    row = next(line for line in answer.out.splitlines() if line.endswith(turns[1]["text"].strip()))
    assert row.split()[:3] == ["1", str(turns[1]["prefill_rows"]), str(turns[1]["kept_rows"])]
    assert turns[1]["kept_rows"] > turns[0]["kept_rows"] == 0
