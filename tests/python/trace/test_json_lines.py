"""Events in lines that are read as columns: what comes of them is what comes of them one by one."""
import json

import pytest
import vitro
from hypothesis import given, settings
from hypothesis import strategies as st
from vitro.errors import ConfigError
from vitro.trace import json_pieces, trace
from vitro.trace.json_events import JsonEvents
from vitro.trace.json_lines import Lines

SPAN = {"ph": "X", "pid": 1, "tid": 2, "name": "matmul", "ts": 1.5, "dur": 2.25, "args": {"detail": "a b"}}
COUNTER = {"ph": "C", "pid": 1, "name": "dram", "ts": 3, "args": {"value": 4.5}}
FLOW = {"ph": "f", "bp": "e", "pid": 1, "tid": 2, "ts": 1.5, "id": 2 ** 63, "cat": "read", "name": "read"}
NAMED = [{"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "a run: units"}},
         {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "cpu0 (3)"}}]


def written(path, events, form=json.dumps):
    path.write_text('{"traceEvents":[\n' + ",\n".join(map(form, events)) + "\n]}\n")
    return path


def rows_of(path, monkeypatch, whole):
    """-> ("ok", spans, counters, flows), or what is wrong with the file."""
    monkeypatch.setattr(trace, "WHOLE", whole)
    try:
        with vitro.load_trace(path) as found:
            return "ok", tuple(found.span_rows), tuple(found.counter_rows), tuple(found.flow_rows)
    except ConfigError as error:
        return ("error", str(error).split("(")[0])


def taken(events, form=json.dumps):
    return Lines(JsonEvents()).take("".join(form(event) + ",\n" for event in events))


def test_lines_as_vitro_writes_them_are_taken_together():
    reader = JsonEvents()
    lines = Lines(reader)
    assert lines.take("".join(json.dumps(event) + ",\n" for event in [*NAMED, SPAN, COUNTER, FLOW]))
    found, = lines.given()
    assert {name: table.to_pylist() for name, table in found.items()} == {
        "spans": [{"number": 3, "place": 0, "name": "matmul", "begin_us": 1.5, "dur_us": 2.25, "detail": "a b"}],
        "counters": [{"number": 4, "place": 1, "counter": "dram", "at_us": 3.0, "value": 4.5}],
        "bound": [{"number": 5, "flow": 2 ** 63, "place": 0, "begin_us": 1.5}]}
    assert reader.places() == [(0, "units", "cpu0"), (1, "units", "")] and lines.given() == []


@pytest.mark.parametrize("event", [
    {**SPAN, "name": None}, {**SPAN, "name": 3}, {**SPAN, "ts": "1"}, {**SPAN, "pid": 1.5}, {**SPAN, "pid": -1}, {**SPAN, "tid": 2 ** 40},
    {**SPAN, "args": {"detail": "a", "more": "b"}}, {**SPAN, "args": {}}, {**SPAN, "args": {"detail": 3}}, {**SPAN, "args": {"value": 3}},
    {**SPAN, "cname": "good"}, {**COUNTER, "args": {"read": 1, "write": 2}}, {**COUNTER, "args": {"value": True}}, {**FLOW, "id": "x"},
    {**FLOW, "id": -1}, {"pid": 1}, {**NAMED[0], "args": {}}, {**SPAN, "dur": None}, {**SPAN, "name": "\ud800"}, [SPAN], 3])
def test_what_only_a_closer_look_can_tell_is_left(event):
    assert taken([SPAN, COUNTER]) and not taken([SPAN, event, COUNTER])


LINE = json.dumps(SPAN)


@pytest.mark.parametrize("line", [json.dumps(SPAN, indent=1), LINE + "\n", f"{LINE} {LINE}", LINE[:-1], LINE.replace("2.25", "1e999"),
                                  LINE.replace("2.25", "NaN"), LINE.replace("2.25", "02"), LINE.replace("a b", "a\tb")])
def test_lines_that_are_not_one_event_each_are_left(line):
    assert not taken([SPAN, SPAN], lambda event: line)


def test_a_line_without_its_comma_is_left():
    assert not Lines(JsonEvents()).take(f"{LINE}\n{LINE},\n")


def test_a_file_in_lines_has_the_same_rows_however_it_is_read(tmp_path, monkeypatch):
    """Of which some are in no form that is taken together, wherever pieces end."""
    events = list(NAMED)
    for at in range(300):
        events += [{**SPAN, "ts": at / 7, "tid": at % 3}, {**COUNTER, "ts": at / 3, "name": f"c{at % 2}"}]
        events += [{**FLOW, "ts": at / 7, "tid": at % 3, "id": at}] if at % 5 == 0 else []
        events += [{**SPAN, "ts": at, "args": {"a": 1, "b": "x"}}] if at % 40 == 39 else []
    file = written(tmp_path / "trace.json", events)
    expected = rows_of(file, monkeypatch, 1 << 30)
    assert expected[0] == "ok" and len(expected[1]) == 307
    for piece in (100, 1000, 5000, 1 << 20):
        monkeypatch.setattr(json_pieces, "PIECE", piece)
        assert rows_of(file, monkeypatch, 0) == expected


ARGS = st.dictionaries(st.sampled_from(["detail", "value", "name", "x"]), st.one_of(st.none(), st.integers(0, 3), st.text(max_size=2)),
                       max_size=2)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.just(2 ** 64), st.floats(allow_nan=True), st.text(max_size=3), ARGS)
KEYS = st.sampled_from(["ph", "pid", "tid", "name", "ts", "dur", "args", "id", "bp", "extra"])
CHANGED = st.tuples(st.sampled_from([SPAN, COUNTER, FLOW, *NAMED]), st.dictionaries(KEYS, VALUES, max_size=2), st.sets(KEYS, max_size=1))


@settings(deadline=None, max_examples=60)
@given(st.lists(CHANGED, min_size=2, max_size=4))
def test_any_events_have_the_same_rows_however_they_are_read(tmp_path_factory, changed):
    events = [{key: value for key, value in (event | changes).items() if key not in gone} for event, changes, gone in changed]
    file = written(tmp_path_factory.mktemp("t") / "trace.json", events)
    with pytest.MonkeyPatch.context() as patch:
        one, other = rows_of(file, patch, 1 << 30), rows_of(file, patch, 0)
    assert one == other
