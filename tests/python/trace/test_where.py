"""Where the time of a trace goes."""
import pytest
import vitro
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from vitro.trace.trace import Trace, load_trace
from vitro.trace.where import where

QUICKSTART = ROOT / "experiments/quickstart.yaml"


def spans(*rows):
    """(track, name, begin, end) -> a trace; "flash" is of the storage."""
    group = {"flash": "storage", "steps": "policy"}
    return Trace(tuple((group.get(track, "units"), track, name, float(begin), float(end - begin), "")
                       for track, name, begin, end in rows), ())


def told(trace, unit, steps=None):
    return {(share.kind, share.what): share.ms * 1e3 for share in where(trace, steps) if share.unit == unit}


def test_a_wait_is_for_what_ended_last_before_the_next_work():
    trace = spans(("cpu0", "matmul", 0, 10), ("flash", "read", 5, 30), ("cpu0", "glu", 31, 40), ("cpu1", "matmul", 40, 50),
                  ("cpu0", "add", 51, 60))
    assert told(trace, "cpu0") == pytest.approx({("computes", "matmul"): 10, ("waits", "storage read"): 21, ("computes", "glu"): 9,
                                                 ("waits", "cpu1"): 11, ("computes", "add"): 9})
    assert told(trace, "cpu1") == pytest.approx({("waits", "cpu0"): 40, ("computes", "matmul"): 10, ("waits", "no more work"): 10})


def test_work_of_the_system_interrupts_a_kernel_and_counts_once():
    trace = spans(("cpu0", "matmul", 0, 20), ("cpu0", "issue I/O", 5, 8), ("cpu0", "policy", 10, 11), ("cpu0", "policy", 20, 25))
    assert told(trace, "cpu0") == pytest.approx({("computes", "matmul"): 16, ("system", "issue I/O"): 3, ("system", "policy"): 6})


def test_only_the_steps_asked_for_count():
    trace = spans(("steps", "prompt", 0, 100), ("steps", "decode", 100, 110), ("steps", "decode", 120, 130), ("cpu0", "matmul", 50, 125))
    assert told(trace, "cpu0", "decode") == pytest.approx({("computes", "matmul"): 15, ("waits", "no more work"): 5})
    assert told(trace, "cpu0", "prompt") == pytest.approx({("computes", "matmul"): 50, ("waits", "the policy"): 50})
    with pytest.raises(vitro.ConfigError, match="no step called 'load' .expected prompt or decode"):
        where(trace, "load")


def test_a_window_begins_with_what_first_ends_in_it():
    rows = (("flash", "read", 900, 1005), ("steps", "decode", 1000, 1040), ("cpu0", "matmul", 1010, 1030),
            ("cpu1", "issue I/O", 1000, 1010))
    trace = spans(*rows)
    assert trace.begin_us == 1000 and told(trace, "cpu0") == {("waits", "storage read"): 10, ("computes", "matmul"): 20,
                                                              ("waits", "no more work"): 10}
    found = trace.summary()
    assert (found["begin_ms"], found["duration_ms"]) == (1, 0.04)
    assert {row["track"]: row["busy_share"] for row in found["tracks"]} == {"flash": 0.125, "steps": 1, "cpu0": 0.5, "cpu1": 0.25}
    assert spans(*rows, ("flash", "write", 990, 998)).begin_us == 998  # a window opens before its first step
    assert spans(*rows, ("steps", "prompt", 10, 20)).begin_us == 0 == spans(*rows[2:]).begin_us


def test_times_are_compared_as_picoseconds():
    """0.1 + 0.2 is more than 0.3 as a float, and so a read would end after the work that waited for it."""
    rows = (("storage", "flash", "read", 0.1, 0.2, ""), ("units", "cpu0", "matmul", 0.3, 1.0, ""))
    assert told(Trace(rows, ()), "cpu0") == {("waits", "storage read"): pytest.approx(0.3), ("computes", "matmul"): pytest.approx(1)}


def test_a_summary_names_work_of_the_system_whole_and_steps_without_their_parts():
    trace = spans(("steps", "prompt", 0, 60), ("steps", "decode", 60, 100), ("steps", "layer 0", 0, 50), ("steps", "part ffn", 0, 40),
                  ("steps", "part head", 60, 100), ("cpu0", "issue I/O", 0, 10), ("cpu0", "matmul blk.0.up", 10, 40))
    top = {row["track"]: {one["name"]: one["share"] for one in row["top"]} for row in trace.summary()["tracks"]}
    assert top == {"steps": {"prompt": 0.6, "decode": 0.4}, "cpu0": {"issue I/O": 0.25, "matmul": 0.75}}


def test_an_empty_trace_is_named_and_drawn_without_a_warning(recwarn):
    with pytest.raises(vitro.ConfigError, match="the trace has no spans .expected trace.first_token"):
        where(Trace((), ()))
    vitro.plot.activity(Trace((), ()))
    vitro.plot.gantt(Trace((), ()))
    assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]


@pytest.mark.parametrize("command", ["summary", "where"])
def test_the_command_line_names_a_trace_without_events(fake, tmp_path, command):
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    answer = fake("trace", command, tmp_path)
    assert answer.code == 2 and f"vitro: {tmp_path}: " in answer.err and "expected trace.first_token and trace.tokens" in answer.err


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_shares_of_a_run_add_up_and_steps_agree_with_its_metrics(native, tmp_path, machine):
    options = {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%", "workload.output_tokens": 6}
    result = vitro.run(QUICKSTART, machine=machine, overrides=options, out=tmp_path / "out")
    trace = load_trace(tmp_path / "out")
    steps = [row for row in trace.span_rows if row[:2] == ("policy", "steps")]
    decode = [(row[3], row[3] + row[4]) for row in steps if row[2] == "decode"]
    assert len(decode) == 5 and [row[2] for row in steps].count("prompt") >= 1
    assert all(any(begin <= row[3] and row[3] + row[4] <= end + 1e-6 for begin, end in
                   [(step[3], step[3] + step[4]) for step in steps if step[2] in ("prompt", "decode")]) for row in steps)
    for part, ms in result.metrics["decode_parts_ms"].items():
        drawn = sum(row[4] for row in steps if row[2] == f"part {part}" and any(begin <= row[3] < end for begin, end in decode))
        close = {"rel": 1e-6, "abs": 1e-6} if machine == "sim" else {"rel": 0.1, "abs": 0.1}  # a host's clock is read twice
        assert drawn / 1e3 == pytest.approx(ms, **close), part
    shares = where(trace, "decode")
    for unit in {share.unit for share in shares}:
        assert sum(share.share for share in shares if share.unit == unit) == pytest.approx(1, abs=1e-6)
    assert any(share.kind == "computes" and share.what == "matmul" for share in shares)
    reads = [row for row in trace.span_rows if row[:3] == ("storage", "flash", "read")]
    assert reads and all("+" in row[5] for row in reads)
    if machine == "sim":
        assert len(reads) == result.data["counts"]["reads"]
        assert {"issue I/O", "policy"} <= {row[2] for row in trace.span_rows if row[0] == "units"}


def by_the_picosecond(rows, end):
    """(unit, kind, what) -> time, by looking at each unit of time alone. rows: (group, track, name, begin, end), whole numbers."""
    found = {}
    kernels = [row for row in rows if row[2] not in ("policy", "issue I/O")]
    for unit in dict.fromkeys(row[1] for row in rows if row[0] == "units"):
        own = [row for row in rows if row[1] == unit]
        busy = {at for row in own for at in range(row[3], row[4])}
        for at in range(end):
            over = [row for row in own if row[3] <= at < row[4]]
            if over:
                inner = sorted(over, key=lambda row: (row[3], -row[4], row[2]))[-1]
                key = "system" if inner[2] in ("policy", "issue I/O") else "computes", inner[2]
            elif not any(later in busy for later in range(at, end)):
                key = "waits", "no more work"
            else:
                since = max((before + 1 for before in busy if before < at), default=0)
                until = min(later for later in busy if later > at)
                last = max(((row[4], f"storage {row[2]}" if row[0] == "storage" else row[1]) for row in kernels
                            if row[1] != unit and since < row[4] <= until), default=(0, "the policy"))
                key = "waits", last[1]
            found[unit, *key] = found.get((unit, *key), 0) + 1
    return found


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["cpu0", "cpu1", "flash"]), st.sampled_from(["matmul", "add", "policy", "issue I/O"]),
                          st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=9))
def test_shares_are_those_of_each_moment(drawn):
    rows = [("storage" if track == "flash" else "units", track, "read" if track == "flash" else name, begin, begin + length)
            for track, name, begin, length in drawn]
    trace = Trace(tuple((*row[:3], float(row[3]), float(row[4] - row[3]), "") for row in rows), ())
    end = max(row[4] for row in rows)
    if end == 0:
        return
    told = {(share.unit, share.kind, share.what): round(share.ms * 1e3) for share in where(trace)}
    assert told == by_the_picosecond(rows, end)
