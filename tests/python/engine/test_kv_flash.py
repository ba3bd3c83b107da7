"""Keys and values in flash on both machines: equal tokens, honest memory, and reading that is hidden behind computing."""
import os
import subprocess
import tempfile

import pytest
import vitro
from conftest import ROOT

QUICKSTART = ROOT / "experiments/quickstart.yaml"
BASE = {"workload.output_tokens": 60, "engine.kv_block_tokens": 8}


def run(machine="sim", out=None, **engine):
    return vitro.run(QUICKSTART, machine=machine, out=out, overrides=BASE | {f"engine.{key}": value for key, value in engine.items()})


def test_tokens_are_those_of_the_run_in_dram_on_both_machines(native):
    expected = run().tokens
    for machine in ("sim", "host"):
        for tokens in (0, 24):
            for prefetch in (True, False):
                assert run(machine, kv_dram_tokens=tokens, kv_prefetch=prefetch).tokens == expected


def test_reading_overlaps_computing_with_prefetch_alone(native, tmp_path):
    for machine in ("sim", "host"):
        hidden = {}
        for prefetch in (True, False):
            out = tmp_path / f"{machine}-{prefetch}"
            result = run(machine, out, kv_dram_tokens=0, kv_prefetch=prefetch)
            hidden[prefetch] = (vitro.load_trace(out).overlap_us("storage/kv reads", "units"), result.metrics["kv_flash"]["hidden_share"])
        assert hidden[True][0] > 0 and hidden[True][1] > 0
        if machine == "sim":
            assert hidden[True][1] > 0.3
        assert hidden[False] == pytest.approx((0, 0), abs=1e-6)  # a picosecond


def test_a_simulation_repeats_itself_and_says_what_it_moved(native):
    first, second = run(kv_dram_tokens=16), run(kv_dram_tokens=16)
    assert first["event_hash"] == second["event_hash"]
    moved, kept = first.metrics["kv_flash"], run()
    assert moved["bytes_read"] > moved["bytes_written"] > 0
    assert first["peak_memory"]["kv"] < kept["peak_memory"]["kv"]
    assert first.metrics["token_latency_ms"]["mean"] > kept.metrics["token_latency_ms"]["mean"]


def test_shapes_alone_move_as_many_bytes(native):
    real = run(kv_dram_tokens=16).metrics["kv_flash"]
    shapes = run(kv_dram_tokens=16, function="draw").metrics["kv_flash"]
    assert (shapes["bytes_written"], shapes["bytes_read"]) == (real["bytes_written"], real["bytes_read"])


def test_a_command_that_can_not_leave_anything_in_flash_says_why(native):
    answer = native("run", QUICKSTART, "--set", "engine.embedding=flash")
    assert answer.code == 2 and "tied" in answer.err


def test_several_sequences_have_room_where_blocks_are_raised_to_whole_pages(native):
    phantom = {"workload.batch": 4, "model.shape.layers": 2, "engine.kv_dram_tokens": 0}
    flash = vitro.run(ROOT / "experiments/papers/mnn/decode.yaml", overrides=phantom)
    assert flash.metrics["kv_flash"]["bytes_written"] == 0  # no sequence fills its first block of 128 positions
    real = {"workload.batch": 6, "workload.output_tokens": 140, "engine.kv_format": "int8_fp8"}
    expected, kept = (vitro.run(QUICKSTART, machine="host", overrides=real | more) for more in ({}, {"engine.kv_dram_tokens": 0}))
    assert kept.tokens == expected.tokens


@pytest.mark.all
def test_the_budget_keeps_no_more_free_than_the_format_takes(native):
    def cold(kv_format):
        return vitro.run(ROOT / "experiments/papers/mnn/decode.yaml", overrides={
            "engine.policy": "mmap", "memory.budget": "1 GiB", "model.shape.layers": 2, "workload.prompt_tokens": 2048,
            "engine.kv_format": kv_format})["peak_memory"]["cold"]
    assert cold("int8_fp8") > cold("f16") > cold("f32")


def test_units_that_attend_and_tied_embeddings_are_told_apart(native):
    npu = ["--set", "engine.policy=qnn", "--set", "engine.units=[npu]", "--set", "engine.sessions=1", "--set", "engine.numerics=false"]
    tied = native("run", QUICKSTART, *npu, "--set", "engine.embedding=flash")
    assert tied.code == 2 and "tied" in tied.err
    engine = native("run", ROOT / "experiments/papers/npumoe/prefill.yaml", "--set", "engine.kv_dram_tokens=0", "--json")
    assert engine.code == 0 and engine.json["metrics"]["experts"]["launches_per_layer"] > 0, engine.err


@pytest.mark.all
def test_what_the_paper_says_of_keys_and_values_in_flash_has_a_row(native):
    answer = native("reproduce", "--paper", "mnn", "--only", "mnn_kv_flash_free_length", "--json")
    assert answer.code == 0, answer.err
    (row,) = answer.json["rows"]
    assert row["status"] == "contradictory" and row["simulated"] > 10
    for check in ("kv_in_flash_is_hidden_at_8k", "prefetch_gains_at_8k"):
        (answer,) = native("reproduce", "--paper", "mnn", "--only", check, "--json").json["checks"]
        assert answer["holds"], answer


def test_an_embedding_in_flash_costs_its_reads_and_saves_its_bytes(native):
    base = ROOT / "experiments/papers/mnn/decode.yaml"
    dram, flash = (vitro.run(base, overrides={"engine.embedding": where}) for where in ("dram", "flash"))
    assert dram["peak_memory"]["fixed"] - flash["peak_memory"]["fixed"] == 152064 * 3584 * 2
    assert flash["peak_memory"]["staging"] == 64 * 3584 * 2  # the rows of the prompt
    before, after = (result.metrics["token_latency_ms"]["mean"] for result in (dram, flash))
    read = flash.metrics["exposed_io_share"] * after  # while every core is idle; the rest is the command's issue
    assert 0.02 < read < after - before < read + 0.01


def test_beams_that_fork_and_wait_choose_the_same_text(native):
    beams = {"engine.units": ["cpu0", "cpu1"], "engine.kv_block_tokens": 8, "workload.output_tokens": 48,
             "workload.scaling": {"method": "beam_search", "samples": 4, "width": 2, "step": {"max_tokens": 7},
                                  "scorer": {"kind": "regex", "patterns": ["dog", "park"]}}}
    kept = vitro.run(ROOT / "experiments/scaling/words.yaml", overrides=beams)
    moved = vitro.run(ROOT / "experiments/scaling/words.yaml", overrides=beams | {"engine.kv_dram_tokens": 8})
    assert moved["scaling"] == kept["scaling"]
    assert moved.metrics["kv_flash"]["bytes_read"] > 0
    assert moved["peak_memory"]["kv"] < kept["peak_memory"]["kv"]


RULES = {"first": {}, "recent": {"kv.keep": "recent"}, "sinks": {"kv.keep": "sinks", "kv.sinks": 3}}


@pytest.mark.parametrize("machine", ("sim", "host"))
def test_neither_rule_nor_order_changes_a_token(machine, native):
    long = {"workload.prompt": " ".join(["Once upon a time there was a little dog."] * 12), "workload.output_tokens": 8}
    expected = vitro.run(QUICKSTART, overrides=BASE | long | {"engine.prefill_order": "chunks"}).tokens
    for rule, keys in RULES.items():
        for order in ("chunks", "layers"):
            engine = {f"engine.{key}": value for key, value in ({"kv.dram_tokens": 24, "prefill_order": order} | keys).items()}
            result = vitro.run(QUICKSTART, machine=machine, overrides=BASE | long | engine | {"engine.prefill_chunk": 16})
            assert result.tokens == expected, (rule, order)
            assert result.metrics["kv_flash"]["bytes_written"] > 0


def test_a_prompt_by_layers_reads_nothing_that_it_wrote_and_takes_less_time(native):
    prompt = {"workload.prompt_tokens": 4096, "workload.output_tokens": 1, "model.shape.layers": 4, "engine.kv_dram_tokens": 0}
    runs = {order: vitro.run(ROOT / "experiments/papers/mnn/decode.yaml", overrides=prompt | {"engine.prefill_order": order})
            for order in ("chunks", "layers", "auto")}
    assert runs["auto"]["event_hash"] == runs["layers"]["event_hash"] != runs["chunks"]["event_hash"]
    chunks, layers = (runs[order].metrics["kv_flash"] for order in ("chunks", "layers"))
    assert layers["bytes_read"] == 0
    position = 4 * 264 * 4  # 4 KV heads, 4 layers, 264 bytes for a key and a value of 128 dimensions
    assert layers["bytes_written"] == 4096 * position
    # Each chunk of 128 positions reads all before it; what the last one computed is still in DRAM when the prompt ends.
    assert chunks["bytes_read"] >= sum(range(0, 4096 - 128 - 128 + 1, 128)) * position
    assert layers["writes"] == 4 * 11  # of each layer 32 blocks of 128 positions, three in one request of the device
    assert chunks["writes"] == 4 * 31
    assert runs["layers"].metrics["ttft_ms"] < runs["chunks"].metrics["ttft_ms"]


def test_what_is_written_is_reported_with_what_it_does_to_wear(native):
    result = run(kv_dram_tokens=16)
    wear = result.metrics["flash_writes"]
    assert wear["bytes"] == result.metrics["kv_flash"]["bytes_written"] > 0
    assert wear["write_amplification"] == 2  # into the one-bit buffer, and from there
    assert wear["share_of_rated"] == wear["bytes"] / 150e12
    full = vitro.run(QUICKSTART, overrides=BASE | {"engine.kv_dram_tokens": 16, "device.ufs.slc_buffer": "0 B"}).metrics["flash_writes"]
    assert full["write_amplification"] == 1
    assert run(machine="host", kv_dram_tokens=16).metrics["flash_writes"]["write_amplification"] is None
    assert "flash_writes" not in run().metrics


@pytest.mark.parametrize("machine", ("sim", "host"))
def test_a_folder_for_scratch_files_is_checked_before_the_run(machine, native, tmp_path):
    flash = ["run", QUICKSTART, "--machine", machine, "--set", "engine.kv_dram_tokens=8"]
    gone = native(*flash, "--set", f"engine.kv.scratch={tmp_path / 'gone'}")
    assert gone.code == 2 and str(tmp_path / "gone") in gone.err and "is not a folder" in gone.err
    assert native(*flash, "--set", f"engine.kv.scratch={tmp_path}").code == 0
    assert list(tmp_path.glob("vitro*")) == []


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a tmpfs")
def test_a_folder_in_memory_is_named(native):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        result = run(machine="host", kv_dram_tokens=8, **{"kv.scratch": folder})
    assert any(folder in note and "is a tmpfs" in note for note in result["notes"])


def small_disk(folder, kib, *options):
    """Mounts a tmpfs of so many KiB; skips where that needs more rights."""
    mount = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={kib}k", *options]), "vitro", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting needs root")


@pytest.mark.parametrize("machine", ("sim", "host"))
@pytest.mark.parametrize("options", (("rw",), ("ro",)), ids=("full", "read-only"))
def test_a_folder_that_is_full_or_read_only_ends_the_run_by_its_name(machine, options, native, tmp_path):
    small_disk(tmp_path, 64, *options)
    try:
        answer = native("run", QUICKSTART, "--machine", machine, "--json", "--set", "workload.output_tokens=60",
                        "--set", f"engine.kv={{dram_tokens: 8, block_tokens: 8, scratch: {tmp_path}}}")
        assert answer.code in (1, 2) and str(tmp_path) in answer.err and not answer.out
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_saved_sequence_goes_on_on_the_other_machine(native, tmp_path):
    file = tmp_path / "story.kv"
    whole = run().tokens
    for before, after in (("sim", "host"), ("host", "sim")):
        first = vitro.run(QUICKSTART, machine=before, overrides=BASE | {"workload.output_tokens": 25, "workload.save_kv": str(file)})
        second = vitro.run(QUICKSTART, machine=after, overrides=BASE | {
            "workload.output_tokens": 35, "workload.prompt": None, "workload.restore_kv": str(file), "engine.kv_dram_tokens": 8,
            "engine.kv_block_tokens": 8})
        assert first.tokens + second.tokens == whole
