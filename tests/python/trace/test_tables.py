"""Perfetto's format as tables: which end belongs to which beginning, in any order of the file, and how little is held."""
import random
import tracemalloc

import pytest
import vitro
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_bytes import begin, counted, end, field, packet, track
from vitro.errors import ConfigError
from vitro.trace import tables, trace
from vitro.trace.perfetto import Events
from vitro.trace.query import query

DESCRIBED = [track(1, "", process="a run: units"), track(2, "cpu0 (3)", 1), track(3, "bytes", 1)]


def loaded(tmp_path, packets):
    (tmp_path / "trace.pftrace").write_bytes(b"".join(packets))
    return vitro.load_trace(tmp_path)


def test_tracks_may_be_described_last_or_not_at_all(tmp_path):
    events = [begin(1000, 2, "a", "x"), end(3500, 2), counted(7, 3, 2.5), begin(5, 9, "b"), end(6, 9)]
    found = loaded(tmp_path, events + DESCRIBED)
    assert found.span_rows == (("", "9", "b", 0.005, 0.001, ""), ("units", "cpu0", "a", 1.0, 2.5, "x"))
    assert found.counter_rows == (("units", "bytes", 0.007, 2.5),) and found.flow_rows == ()


def paired(events):
    """-> (name, begin, duration) by the stack of one track, as viewers do it."""
    stack, found = [], []
    for at, name in sorted(events, key=lambda event: event[0]):
        if name is not None:
            stack.append((name, at))
        elif stack:
            name, began = stack.pop()
            found.append((name, began, at - began))
    return sorted(found)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 12), st.one_of(st.none(), st.sampled_from("abc"))), max_size=14))
def test_ends_belong_to_the_last_beginning_that_is_open(tmp_path_factory, events):
    told = [begin(1000 * at, 2, name) if name else end(1000 * at, 2) for at, name in events]
    found = loaded(tmp_path_factory.mktemp("t"), DESCRIBED + told)
    assert sorted(row[2:5] for row in found.span_rows) == paired(events)


def test_a_name_that_a_packet_tells_holds_for_its_sequence_until_that_forgets(tmp_path):
    def named(at, sequence, told=b"", flags=2):
        return packet(field(8, at) + field(11, field(9, 1) + field(11, 2) + field(10, 5)) + field(10, sequence) + field(13, flags) + told)
    tell = field(12, field(2, field(1, 5) + field(2, "matmul")))
    begins = [named(1, 7, tell), named(3, 7), named(5, 8), named(7, 7, flags=1)]
    found = loaded(tmp_path, [each for at, first in enumerate(begins) for each in (first, end(2 * at + 2, 2))])
    assert [row[2] for row in found.span_rows] == ["matmul", "matmul", "", ""]


def made(path, blocks):
    with path.open("wb") as file:
        file.write(b"".join(DESCRIBED))
        for block in range(blocks):
            at = 1000 * block
            file.write(b"".join(begin(at + i, 2, "a kernel", "d" * 1500) + end(at + i + 1, 2) for i in range(100)))
    return path


def test_memory_does_not_grow_with_the_trace(tmp_path):
    held = []
    for blocks in (40, 160):
        path = made(tmp_path / f"{blocks}.pftrace", blocks)
        tracemalloc.start()
        try:
            assert sum(len(columns[0]) for columns in Events(path).batches()) == 200 * blocks
            held.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert path.stat().st_size > 24_000_000 and held[1] < 1.2 * held[0] < 10_000_000, held


def test_tables_are_right_where_they_do_not_fit_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MEMORY", "24MB")
    path = tmp_path / "trace.pftrace"
    names = random.Random(1)
    with path.open("wb") as file:
        file.write(b"".join(DESCRIBED))
        for at in range(20_000):
            file.write(begin(10 * at, 2, "a", f"{names.getrandbits(2000):x}") + end(10 * at + 4, 2))
    answer = query(path, "SELECT count(*), sum(dur_us), count(DISTINCT detail), min(length(detail)) FROM spans").to_numpy().tolist()[0]
    assert answer[:1] + answer[2:3] == [20_000, 20_000] and answer[1] == pytest.approx(80) and answer[3] > 450


def test_nothing_is_left_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    path = made(tmp_path / "trace.pftrace", 1)
    assert query(path, "SELECT count(*) FROM spans").iloc[0, 0] == 100
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="trace.pftrace: is not a Perfetto trace: at byte [0-9]+: .*cut short"):
        query(path, "SELECT 1")
    assert not list((tmp_path / "t").iterdir())


@pytest.mark.parametrize("body, said", [(b"\x5a\xff\x01", "at byte"), (b"\x40" + b"\xff" * 11, "at byte")], ids=["length", "varint"])
def test_a_packet_that_can_not_be_read_is_named_with_its_place(tmp_path, fake, body, said):
    good = b"".join(DESCRIBED)
    (tmp_path / "trace.pftrace").write_bytes(good + packet(body) + begin(1, 2, "a"))
    answer = fake("trace", "query", tmp_path, "SELECT 1")
    assert answer.code == 2 and f"trace.pftrace: is not a Perfetto trace: {said} {len(good)}: " in " ".join(answer.err.split())


def test_text_that_is_no_text_has_marks_in_it(tmp_path):
    odd = [packet(field(60, field(1, 2) + field(2, b"cpu\xff"))), begin(1, 2, b"mul\xc3\x28", b"\xfe"), end(2, 2)]
    assert loaded(tmp_path, odd).span_rows == (("", "cpu\ufffd", "mul\ufffd(", 0.001, 0.001, "\ufffd"),)


@pytest.mark.parametrize("whole", [0, 1 << 20], ids=["in pieces", "whole"])
@pytest.mark.parametrize("name", ["process_name", "thread_name"])
def test_a_name_that_is_no_text_is_one_message_in_json(tmp_path, monkeypatch, name, whole):
    monkeypatch.setattr(trace, "WHOLE", whole)
    (tmp_path / "trace.json").write_text('[{"ph": "M", "pid": 1, "tid": 1, "name": "%s", "args": {"name": "a: \\ud800"}},'
                                         ' {"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 1, "dur": 2}]' % name)
    with pytest.raises(ConfigError, match="trace.json: is not a Perfetto trace .UnicodeEncodeError"):
        query(tmp_path, "SELECT * FROM spans")
