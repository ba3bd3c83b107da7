"""Parts of a store: what is damaged is named, wherever it is."""
import json

import pytest
import vitro
from vitro.study import parts

ROW = {"identity": "i0", "repeat": 0, "machine": "sim", "label": None, "experiment": "x", "point": "{}", "engine": "e", "revision": None,
       "dirty": False, "files": "{}", "host": "null", "tries": 1, "began": ""}
ANSWER = {"metrics": {"decode_tokens_per_s": 2, "token_latency_ms": {"p99": 3.5}}, "wall_s": 0.5, "experiment_resolved": {"machine": "sim"}}


def test_a_part_that_is_damaged_anywhere_is_named(tmp_path):
    """Pages of rows have checksums; the rest of a file is read by its structure."""
    path = tmp_path / parts.write(tmp_path, [parts.row_of(ROW, ANSWER)])
    whole, refused = path.read_bytes(), 0
    places = range(0, len(whole), max(1, len(whole) // 150))
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1:])
        try:
            assert parts.answer_of(parts.read(path)[0]) == ANSWER
        except vitro.ConfigError as error:
            assert str(error).startswith(f"{path}: is damaged (") and "\n" not in str(error)
            refused += 1
    assert refused > len(places) / 2, "the others are statistics, and names of columns that nobody asks for"
    for length in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(vitro.ConfigError, match="is damaged"):
            parts.read(path)


def test_a_row_is_read_back(tmp_path):
    row = parts.row_of(ROW, ANSWER)
    assert json.loads(row["answer"]) == {key: value for key, value in ANSWER.items() if key != "experiment_resolved"}
    kept = parts.read(tmp_path / parts.write(tmp_path, [row]))[0]
    assert {key: kept[key] for key in row} == row and parts.answer_of(kept) == ANSWER
