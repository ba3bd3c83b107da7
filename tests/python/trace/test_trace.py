"""Traces and decision logs."""
import json
import sys

import numpy
import pytest
import vitro
from conftest import EXPERIMENT
from vitro import plot
from vitro.trace import trace


def perfetto(tmp_path, events):
    meta = [{"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "vitro sim: units"}},
            {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "cpu0"}},
            {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "cpu0 (2)"}}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": meta + events}))
    return trace.load_trace(path)


def span(tid, begin, duration, name="matmul blk.0"):
    return {"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": begin, "dur": duration}


def counter(at, value):
    return {"ph": "C", "pid": 1, "name": "weights", "ts": at, "args": {"value": value}}


def test_lanes_are_one_track_and_overlap_counts_once(tmp_path):
    found = perfetto(tmp_path, [span(1, 0, 10), span(2, 5, 10), span(1, 30, 10, "attention")])
    (row,) = found.summary()["tracks"]
    assert (row["group"], row["track"], row["spans"]) == ("units", "cpu0", 3)
    assert row["busy_ms"] == pytest.approx(0.025)
    assert row["busy_share"] == pytest.approx(25 / 40)
    assert row["top"][0] == {"name": "matmul", "share": pytest.approx(2 / 3)}


def test_a_notebook_prints_one_line(tmp_path):
    assert repr(perfetto(tmp_path, [span(1, 0, 10), counter(0, 4)])) == "Trace(1 spans, 1 counter values, 0.01 ms)"


def test_a_counters_mean_is_weighted_by_time(tmp_path):
    found = perfetto(tmp_path, [span(1, 0, 10), counter(0, 4), counter(9, 14)])
    (row,) = found.summary()["counters"]
    assert (row["min"], row["max"], row["last"]) == (4, 14, 14)
    assert row["mean"] == pytest.approx(5)


def test_busy_share_of_bins(tmp_path):
    found = perfetto(tmp_path, [span(1, 2, 4), span(1, 5, 3), span(1, 12, 8)])
    share = plot.busy_share(found, "units", "cpu0", numpy.array([0.0, 4, 8, 12, 16, 20]))
    assert share == pytest.approx([0.5, 1, 0, 1, 1])


def test_frames(fake, tmp_path):
    vitro.run(EXPERIMENT, out=tmp_path / "o", overrides={"memory.budget": "5 MiB"})
    found = vitro.load_trace(tmp_path / "o")
    assert set(found.spans["group"]) == {"units", "storage"}
    assert found.spans["begin_us"].is_monotonic_increasing
    assert set(found.counters["counter"]) == {"weights", "kv", "activations", "dram"}


def log(tmp_path, name, kinds):
    path = tmp_path / name
    path.write_text("".join(json.dumps({"n": i, "kind": kind, "what": f"blk.{i}", "where": "dram"}) + "\n" for i, kind in enumerate(kinds)))
    return path


def test_equal_logs(tmp_path):
    a, b = log(tmp_path, "a", ["load"] * 5), log(tmp_path, "b", ["load"] * 5)
    answer = trace.diff_decisions(a, b)
    assert answer["equal"] and answer["count"] == [5, 5] and not answer["hunks"]


def test_the_first_difference_has_context(tmp_path):
    a = log(tmp_path, "a", ["load", "load", "evict", "load", "load", "load"])
    b = log(tmp_path, "b", ["load", "load", "split", "load", "load", "load"])
    answer = trace.diff_decisions(a, b, context=1)
    (hunk,) = answer["hunks"]
    assert not answer["equal"]
    assert (hunk["a_begin"], hunk["b_begin"]) == (3, 3)
    assert hunk["before"] == ["load blk.1 -> dram"] and hunk["after"] == ["load blk.3 -> dram"]
    assert (hunk["a"], hunk["b"]) == (["evict blk.2 -> dram"], ["split blk.2 -> dram"])
    assert answer["kinds"] == {"evict": [1, 0], "load": [5, 5], "split": [0, 1]}


def test_a_missing_end_is_a_difference(tmp_path):
    answer = trace.diff_decisions(log(tmp_path, "a", ["load"] * 3), log(tmp_path, "b", ["load"] * 5))
    assert answer["hunks"][0]["b"] == ["load blk.3 -> dram", "load blk.4 -> dram"]


def test_limit_says_that_there_is_more(tmp_path):
    a, b = log(tmp_path, "a", ["x", "l"] * 9), log(tmp_path, "b", ["y", "l"] * 9)
    answer = trace.diff_decisions(a, b, limit=2)
    assert len(answer["hunks"]) == 2 and answer["more"]


def test_command_line(fake):
    path = fake.write()
    for name, policy in (("a", "mmap"), ("b", "mmap"), ("c", "dense")):
        fake("run", path, "--out", name, "--set", f"engine.policy={policy}", "--set", "memory.budget=5 MiB")
    assert fake("trace", "diff", "a", "b").code == 0
    answer = fake("trace", "diff", "a", "c")
    assert answer.code == 1
    assert "- load blk.0.ffn_up -> page_cache" in answer.out
    assert fake("trace", "diff", "a", "c", "--json").json["equal"] is False
    assert {row["track"] for row in fake("trace", "summary", "a", "--json").json["tracks"]} == {"cpu0", "cpu1", "flash"}
    assert "matmul" in fake("trace", "summary", "a").out
    told = fake("trace", "where", "a", "--json").json
    assert told["schema"] == "vitro.trace_where/1" and told["steps"] is None
    assert {"unit", "kind", "what", "ms", "share"} == told["rows"][0].keys()


def test_polars_has_the_same_tables(tmp_path, monkeypatch):
    one = trace.Trace((("units", "cpu0", "matmul a", 0.0, 2.0, ""), ("storage", "flash", "read", 1.0, 1.0, "0+4096")),
                      (("memory", "kv", 1.0, 3.0),))
    polars = pytest.importorskip("polars")
    for table in ("spans", "counters"):
        assert one.to_polars(table).rows() == [tuple(row) for row in one.to_pandas(table).itertuples(index=False)]
    assert trace.Trace((), ()).to_polars().columns == list(one.spans.columns) and polars
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(vitro.ConfigError, match="polars is not installed"):
        one.to_polars()
    with pytest.raises(vitro.ConfigError, match="table: 'span' .expected one of: spans, counters"):
        one.to_pandas("span")


def test_a_page_shows_how_busy_each_track_is():
    page = trace.Trace((("units", "cpu0", "matmul <a>", 0.0, 2000.0, ""), ("storage", "flash", "read", 0.0, 1000.0, "")), ())._repr_html_()
    assert "units/cpu0" in page and "50.0%" in page and "matmul 100%" in page and "2 ms" in page


SPAN = span(2, 1.5, 2)


@pytest.mark.parametrize("events", [
    [SPAN | {"name": 1.5}], [SPAN | {"ts": "soon"}], [SPAN | {"dur": None}], [SPAN | {"ts": 1e999}], [SPAN | {"pid": [1]}],
    [SPAN | {"dur": 10 ** 400}], [SPAN | {"ts": 1e308, "dur": 1e308}],
    [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": 3}}], [{"ph": "C", "pid": 1, "ts": 2, "name": 7, "args": {"x": 3}}],
    [{"ph": "C", "pid": 1, "ts": 2, "name": "bytes", "args": {"x": "many"}}], {"traceEvents": 3}, [3], "text", [[]] * 2,
], ids=lambda events: json.dumps(events)[:60])
def test_what_is_no_trace_is_named(tmp_path, events):
    (tmp_path / "trace.json").write_text(json.dumps(events))
    with pytest.raises(vitro.ConfigError, match="trace.json: is not a Perfetto trace"):
        vitro.load_trace(tmp_path)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff\xfe", b"", b"{}"], ids=["deep", "no text", "empty", "no events"])
def test_bytes_that_are_no_trace_are_named(tmp_path, data):
    (tmp_path / "trace.json").write_bytes(data)
    with pytest.raises(vitro.ConfigError, match="trace.json: is not a Perfetto trace"):
        vitro.load_trace(tmp_path)
