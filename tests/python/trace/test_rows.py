"""Rows of a trace that stay on disk: the same answers as rows in memory, and no more memory for more of them."""
import copy
import gc
import json
import pickle
import random
import subprocess
import sys

import duckdb
import numpy
import pytest
import vitro
from conftest import ROOT
from packet_bytes import begin, end, track
from vitro import plot
from vitro.trace import query, rows, tables, trace
from vitro.trace.rows import Rows
from vitro.trace.where import where

DESCRIBED = [track(1, "", process="a run: units"), track(2, "cpu0", 1)]
NAMES = ("spans", "counters", "flows")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A run's trace in JSON, with its rows in memory and on disk."""
    folder = tmp_path_factory.mktemp("run")
    changes = {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%", "workload.output_tokens": 4, "trace.flows": True}
    vitro.run(ROOT / "experiments/quickstart.yaml", overrides=changes, out=folder)
    memory, whole = vitro.load_trace(folder), trace.WHOLE
    try:
        trace.WHOLE = 0
        return memory, vitro.load_trace(folder)
    finally:
        trace.WHOLE = whole


def test_rows_on_disk_are_those_in_memory(native, both):
    memory, disk = both
    assert isinstance(disk.span_rows, Rows) and isinstance(memory.span_rows, tuple)
    assert disk.span_rows == memory.span_rows and disk.counter_rows == memory.counter_rows
    assert disk.flow_rows == memory.flow_rows and len(memory.flow_rows) > 100
    assert disk.span_rows != memory.span_rows[:-1] and disk.span_rows != memory.counter_rows


def test_all_questions_have_the_same_answers(native, both):
    memory, disk = both
    assert (disk.begin_us, disk.end_us, disk.tracks(), disk.tracks("units")) == (
        memory.begin_us, memory.end_us, memory.tracks(), memory.tracks("units"))
    assert disk.summary() == memory.summary() and repr(disk) == repr(memory) and disk._repr_html_() == memory._repr_html_()
    assert where(disk, "decode") == where(memory, "decode") and where(disk) == where(memory)
    for pair in (("storage", "units"), ("units/cpu0", "units/cpu1")):
        assert disk.overlap_us(*pair) == memory.overlap_us(*pair) > 0
    edges = numpy.linspace(0, memory.end_us, 100)
    for place in memory.tracks():
        assert plot.busy_share(disk, *place, edges) == pytest.approx(plot.busy_share(memory, *place, edges))


def test_parts_of_the_rows_are_the_same(native, both):
    memory, disk = both
    middle = memory.end_us / 2
    for part in (lambda spans: rows.of_group(spans, "storage"), lambda spans: rows.overlapping(spans, middle, 1.1 * middle),
                 lambda spans: rows.named(spans, lambda name: name.startswith("r")), lambda spans: rows.of_track(spans, "units", "cpu0")):
        found = list(part(memory.span_rows))
        assert list(part(disk.span_rows)) == found and 0 < len(found) < len(memory.span_rows)
    for nothing in (lambda spans: rows.of_group(spans, "nobody"), lambda spans: rows.named(spans, lambda name: False)):
        assert list(nothing(disk.span_rows)) == list(nothing(memory.span_rows)) == []
    assert list(rows.of_group(disk.counter_rows, "memory")) == rows.of_group(memory.counter_rows, "memory")


def test_tables_have_the_same_columns_and_cells(native, both):
    memory, disk = both
    for name in NAMES[:2]:
        one, two = memory.to_pandas(name), disk.to_pandas(name)
        assert list(one.columns) == list(two.columns) and [list(row) for row in one.to_numpy()] == [list(row) for row in two.to_numpy()]
        assert [kind.kind for kind in one.dtypes] == [kind.kind for kind in two.dtypes]
    taken = disk.flows["kernel"].notna()
    assert taken.sum() == memory.flows["kernel"].notna().sum() and list(disk.flows.columns) == list(memory.flows.columns)


@pytest.mark.parametrize("kind", [0, 1], ids=["memory", "disk"])
def test_batches_are_the_table_in_parts(native, both, kind):
    parts = list(both[kind].batches("spans", rows=500))
    assert [len(part) for part in parts[:-1]] == [500] * (len(parts) - 1) and len(parts) > 2
    assert sum(part["dur_us"].sum() for part in parts) == pytest.approx(both[kind].spans["dur_us"].sum())
    with pytest.raises(vitro.ConfigError, match="rows: 0 .expected 1 or more"):
        both[kind].batches(rows=0)


def test_rows_are_a_sequence(native, both):
    memory, disk = (each.span_rows for each in both)
    for at in (0, 3, -1, -len(memory)):
        assert disk[at] == memory[at]
    for cut in (slice(2, 7), slice(-3, None), slice(8, 2), slice(0, 9, 4), slice(5, 0, -2), slice(None, None, -1), slice(None, None, 7),
                slice(-1, 3, -100), slice(0, 0), slice(3, 4), slice(4, 9, -1)):
        assert disk[cut] == memory[cut]
    for at in (len(memory), -len(memory) - 1):
        with pytest.raises(IndexError, match=f"row {at} of {len(memory)}"):
            disk[at]
    with pytest.raises(TypeError):
        disk["3"]
    assert list(reversed(disk)) == list(reversed(memory)) and len(memory) > 2 * rows._BATCH
    assert list(zip(disk, disk)) == list(zip(memory, memory)), "two walks at once"
    assert repr(disk) == f"<{len(memory)} rows of spans>" and memory[7] in disk


def test_index_is_that_of_the_sequence(native, both):
    memory, disk = (each.span_rows for each in both)
    wanted = memory[11]
    for bounds in ((), (5,), (-len(memory),), (11, 12), (0, len(memory) + 5), (-len(memory) - 9,)):
        assert disk.index(wanted, *bounds) == memory.index(wanted, *bounds)
    for value, *bounds in ((wanted, 0, 11), (wanted, 12), (None,), (wanted, -1)):
        with pytest.raises(ValueError, match="is no row of spans"):
            disk.index(value, *bounds)
    assert disk.count(wanted) == memory.count(wanted)


def test_steps_reversed_and_index_are_one_walk(native, both, monkeypatch):
    asked, disk = [], both[1].span_rows
    walk = Rows._asked
    monkeypatch.setattr(Rows, "_asked", lambda self, sql, *values: asked.append(sql) or walk(self, sql, *values))
    for what, most in ((lambda: disk[::3], 2), (lambda: disk[::-1], 2), (lambda: disk.index(disk[len(disk) - 1]), 4),
                       (lambda: list(reversed(disk)), 2 + len(disk) // rows._BATCH)):
        asked.clear()
        what()
        assert len(asked) <= most, asked


@pytest.mark.parametrize("copied", [lambda trace: pickle.loads(pickle.dumps(trace)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_has_its_rows_in_memory(native, both, copied):
    memory, disk = both
    found = copied(disk)
    assert type(found.span_rows) is tuple and found == memory and found.summary() == memory.summary()


def test_a_trace_that_was_closed_has_no_files_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    (tmp_path / "trace.pftrace").write_bytes(b"".join([*DESCRIBED, begin(10, 2, "a"), end(20, 2)]))
    with vitro.load_trace(tmp_path) as found:
        assert len(found.span_rows) == 1 and len(list((tmp_path / "t").iterdir())) == 1
    assert not list((tmp_path / "t").iterdir())
    found.close()
    assert repr(found) == "Trace(closed)" and repr(found.span_rows) == "<rows of spans, closed>"
    for asked in (lambda: list(found.counter_rows), lambda: found.span_rows[0], found.summary, found.to_pandas,
                  lambda: list(found.batches())):
        with pytest.raises(vitro.ConfigError, match="trace: was closed"):
            asked()


def test_closing_leaves_rows_in_memory(native, both):
    with both[0] as found:
        pass
    assert found.span_rows and "spans" in repr(found)


def test_a_query_of_a_large_file_in_json_reads_it_in_parts(native, both, tmp_path, monkeypatch):
    (tmp_path / "trace.json").write_text(json.dumps([{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 1, "dur": 2}]))
    monkeypatch.setattr(trace, "WHOLE", 0)
    monkeypatch.setattr(query, "load_trace", None)
    assert query.query(tmp_path, "SELECT name, dur_us FROM spans").to_numpy().tolist() == [["a", 2]]


def test_files_are_there_as_long_as_the_trace(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    (tmp_path / "trace.pftrace").write_bytes(b"".join([*DESCRIBED, begin(10, 2, "a"), end(20, 2)]))
    held = vitro.load_trace(tmp_path).span_rows
    gc.collect()
    assert len(held) == 1 and len(list((tmp_path / "t").iterdir())) == 1
    del held
    gc.collect()
    assert not list((tmp_path / "t").iterdir())


CHILD = """
import json, resource, sys
import vitro
from vitro import plot
from vitro.trace import query, tables, trace, where

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

tables.MEMORY, trace.WHOLE = "64MB", 0
found = vitro.load_trace(sys.argv[1])
count = sum(len(row[5]) > 1900 for row in found.span_rows)
found.summary(), where.where(found), found.overlap_us("units", "storage"), repr(found), found.span_rows[5]
count += sum(len(part) for part in found.batches(rows=2000))
plot.activity(found)
if sys.argv[3:]:
    held = tuple(found.span_rows)
del found
count += query.query_to(sys.argv[1], "SELECT * FROM spans", sys.argv[2])
print(json.dumps({"count": count, "mb": peak()}))
"""


def made(path, spans):
    """Of texts that are all different, so that a row takes two kilobytes."""
    draw = random.Random(1)
    with path.open("wb" if path.suffix == ".pftrace" else "w") as file:
        if path.suffix == ".pftrace":
            file.write(b"".join(DESCRIBED))
            for at in range(spans):
                file.write(begin(10_000 * at, 2, "matmul a", f"{draw.getrandbits(8000):02000x}") + end(10_000 * at + 4000, 2))
            return path
        file.write('{"traceEvents": [{"ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": {"name": "a: units"}}')
        for at in range(spans):
            file.write(',\n{"ph": "X", "pid": 1, "tid": 1, "name": "matmul a", "ts": %d, "dur": 4, "args": {"detail": "%02000x"}}'
                       % (10 * at, draw.getrandbits(8000)))
        file.write("]}")
    return path


@pytest.mark.parametrize("kind", ["pftrace", "json"])
def test_memory_does_not_grow_with_the_rows(tmp_path, kind):
    """60,000 rows of two kilobytes are asked everything; as objects they would be above 130 MB."""
    peaks = []
    for spans in (4_000, 60_000):
        path = made(tmp_path / f"{spans}.{kind}", spans)
        told = subprocess.run([sys.executable, "-c", CHILD, path, tmp_path / "rows.parquet"], capture_output=True, text=True, check=True)
        answer = json.loads(told.stdout)
        assert answer["count"] == 3 * spans
        peaks.append(answer["mb"])
    assert path.stat().st_size > 120_000_000 and peaks[1] - peaks[0] < 100, peaks


def test_a_notebook_that_can_not_draw_progress_bars_reads_traces():
    class Connection:
        """As DuckDB's in Jupyter without ipywidgets."""

        def execute(self, sql):
            raise duckdb.InvalidInputException("Could not change the progress bar setting")
    connection = Connection()
    assert tables._quiet(connection) is connection
