"""Events of a JSON file that is read in pieces, and what damaged files say."""
import json

import pytest
import vitro
from vitro.trace import json_pieces, trace


def read(tmp_path, text, monkeypatch, piece):
    monkeypatch.setattr(json_pieces, "PIECE", piece)
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    return list(json_pieces.events(tmp_path / "a.json"))


EVENTS = [{"name": "größe", "args": {"a": [1, 2.5, None]}}, {}, 3, "text ] , {", {"n": 12345678901234567890}, [1, [2]], True]


@pytest.mark.parametrize("piece", [1, 3, 17, 1 << 20])
@pytest.mark.parametrize("form", [json.dumps(EVENTS), json.dumps({"a": 1, "traceEvents": EVENTS, "b": {"traceEvents": [7]}}),
                                  f' {{ "traceEvents" :\n{json.dumps(EVENTS, indent=1, ensure_ascii=False)}\n,"z":12}} '],
                         ids=["list", "object", "spaces"])
def test_events_come_one_by_one_wherever_pieces_end(tmp_path, monkeypatch, form, piece):
    assert read(tmp_path, form, monkeypatch, piece) == EVENTS


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 1 << 20])
@pytest.mark.parametrize("form", ["[{}]", '{{"a": 2.5, "b":1e-3,"c":-7.25e1 , "traceEvents": [{}], "d":2.5,"e": 1e-3}}'],
                         ids=["list", "object"])
def test_numbers_are_whole_wherever_pieces_end(tmp_path, monkeypatch, form, piece):
    numbers = "2.5,1e-3, 1E+2 ,-0.25e1, 2 ,30,-4,1e5"
    assert read(tmp_path, form.format(numbers), monkeypatch, piece) == [2.5, 0.001, 100.0, -2.5, 2, 30, -4, 100000.0]


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}', '{"a": [], "traceEvents": [ ] }'])
def test_there_may_be_none(tmp_path, monkeypatch, text):
    assert read(tmp_path, text, monkeypatch, 2) == []


@pytest.mark.parametrize("text", ["", "{}", "3", '"text"', "[1, 2", "[1 2]", "[1,]", '{"traceEvents": 3}', '{"traceEvents": [1]', "[1] x",
                                  '{"traceEvents": [1] "a": 2}', "{3: [1]}", '{"a" 3}', '{"a": 1}', "[" * 50_000, '["\x01"]', "[1}",
                                  "[2.]",
                                  "[2.", "[1e]", "[1e-", "[-]"])
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_what_is_no_trace_is_named(tmp_path, monkeypatch, text, piece):
    monkeypatch.setattr(json_pieces, "PIECE", piece)
    monkeypatch.setattr(trace, "WHOLE", -1)
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(vitro.ConfigError, match="trace.json: is not a Perfetto trace"):
        vitro.load_trace(tmp_path)


def test_a_value_that_does_not_end_is_refused_before_all_of_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(json_pieces, "MOST_VALUE", 1000)
    monkeypatch.setattr(json_pieces, "PIECE", 100)
    with (tmp_path / "a.json").open("w") as file:
        file.write('["')
        file.write("a" * 1_000_000)
    with (tmp_path / "a.json").open("rb") as file:
        text = json_pieces._Text(file)
        text.next()
        with pytest.raises(ValueError, match="Unterminated"):
            text.value()
        assert file.tell() < 10_000


def test_lines_are_offered_once_for_each_piece(tmp_path, monkeypatch):
    """Also where they are left, or where there are none: a search through the piece for each event would not end."""
    monkeypatch.setattr(json_pieces, "PIECE", 1000)
    events = [{"ph": "X", "n": n} for n in range(500)]
    for between, most in ((",\n", 15), (", ", 0)):
        path = tmp_path / "trace.json"
        path.write_text("[" + between.join(map(json.dumps, events)) + "]")
        offered = []
        assert list(json_pieces.events(path, lambda lines: bool(offered.append(lines)))) == events and len(offered) <= most
    path.write_text("[" + ",\n".join(map(json.dumps, events)) + "]")
    taken = []
    left = list(json_pieces.events(path, lambda lines: taken.extend(json.loads(f"[{lines[:-2]}]")) is None))
    assert sorted(taken + left, key=lambda event: event["n"]) == events and 0 < len(left) < 20
