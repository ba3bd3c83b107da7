"""Keys and values in flash on both machines: equal tokens, honest memory, and reading that is hidden behind computing."""
import vitro
from conftest import ROOT

QUICKSTART = ROOT / "experiments/quickstart.yaml"
BASE = {"workload.output_tokens": 60, "engine.kv_block_tokens": 8}


def run(machine="sim", out=None, **engine):
    return vitro.run(QUICKSTART, machine=machine, out=out, overrides=BASE | {f"engine.{key}": value for key, value in engine.items()})


def overlap_us(folder):
    """Time of the run in which keys and values are read while some unit computes, from the trace."""
    edges = []
    for group, track, _, begin, duration, _ in vitro.load_trace(folder).span_rows:
        kind = "read" if track == "kv reads" else "unit" if group == "units" else None
        edges += [(begin, 1, kind), (begin + duration, -1, kind)] if kind else []
    live, total, before = {"read": 0, "unit": 0}, 0.0, 0.0
    for at, change, kind in sorted(edges):
        total += at - before if live["read"] and live["unit"] else 0
        live[kind] += change
        before = at
    return total


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
            hidden[prefetch] = (overlap_us(out), result.metrics["kv_flash"]["hidden_share"])
        assert hidden[True][0] > 0 and hidden[True][1] > 0
        if machine == "sim":
            assert hidden[True][1] > 0.3
        assert hidden[False] == (0, 0)


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


def test_each_result_of_the_paper_has_a_row(native):
    answer = native("reproduce", "--paper", "mnn", "--json")
    assert answer.code == 0, answer.err
    rows = {row["id"]: row for row in answer.json["rows"]}
    answered = {key for key, row in rows.items() if row["simulated"] is not None}
    assert answered == {"mnn_nonembedding_load_time", "mnn_layer_load_time", "mnn_embedding_flash_overhead", "mnn_kv_flash_free_length",
                        "mnn_kv_flash_extra_delay"}
    assert all(row["status"] == "not modelled" and row["why"] for key, row in rows.items() if key not in answered)
    assert rows["mnn_kv_flash_free_length"]["status"] == "contradictory" and rows["mnn_kv_flash_free_length"]["simulated"] > 10
    assert all(check["holds"] for check in answer.json["checks"])


def test_an_embedding_in_flash_costs_its_reads_and_saves_its_bytes(native):
    base = ROOT / "experiments/papers/mnn/decode.yaml"
    dram, flash = (vitro.run(base, overrides={"engine.embedding": where}) for where in ("dram", "flash"))
    assert dram["peak_memory"]["fixed"] - flash["peak_memory"]["fixed"] == 152064 * 3584 * 2
    assert flash["peak_memory"]["staging"] == 64 * 3584 * 2  # the rows of the prompt
    before, after = (result.metrics["token_latency_ms"]["mean"] for result in (dram, flash))
    read = flash.metrics["io_share"] * after  # while every core is idle; the rest is the command's issue
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
