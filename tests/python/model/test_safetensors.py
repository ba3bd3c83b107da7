"""Headers of safetensors files come from anywhere: every length and offset is checked, and what is wrong is named."""
import json
import struct

import numpy as np
import pytest
from exporter import write_safetensors
from vitro.errors import ConfigError
from vitro.model.safetensors import read_folder, read_header

GOOD = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(4, dtype=np.int32)}


def write(path, header, data=b"\0" * 40, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def test_tensors_come_back(tmp_path):
    write_safetensors(tmp_path / "x.safetensors", GOOD)
    found = read_folder(tmp_path)
    assert set(found) == {"a", "b"}
    for name, value in GOOD.items():
        assert (found[name].load() == value).all() and found[name].load().dtype == value.dtype


def test_bfloat16_becomes_floats(tmp_path):
    write(tmp_path / "x.safetensors", {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, b"\x80\x3f\x00\xc0")
    assert read_folder(tmp_path)["a"].floats().tolist() == [1, -2]


def entry(**changes):
    return {"dtype": "F32", "shape": [10], "data_offsets": [0, 40]} | changes


@pytest.mark.parametrize("header, length, words", [
    ({"a": entry(dtype="F4")}, None, ["a: dtype F4"]),
    ({"a": entry(shape=[-1])}, None, ["a: shape [-1]"]),
    ({"a": entry(shape=[1.5])}, None, ["a: shape"]),
    ({"a": entry(shape=[11])}, None, ["a: data_offsets [0, 40] are 40 bytes (expected 44"]),
    ({"a": entry(shape=[12], data_offsets=[0, 48])}, None, ["a: ends at byte", "truncated"]),
    ({"a": entry(shape=[9], data_offsets=[4, 40])}, None, ["a: begins at byte"]),
    ({"a": entry(), "b": entry()}, None, ["begins at byte"]),
    ({"a": entry(shape=[9], data_offsets=[0, 36])}, None, ["(expected", "where its last tensor ends)"]),
    ({"a": 3}, None, ["a: dtype 3"]),
    (b"[]", None, ["no JSON object"]), (b"{", None, ["can not be read as JSON"]), (b'{"a": 1, "a": 2}', None, ['"a" twice']),
    (b"{}", 1 << 60, ["does not fit"]), (b"{}", 43, ["does not fit"]),
])
def test_what_is_wrong_is_named(tmp_path, header, length, words):
    path = tmp_path / "x.safetensors"
    write(path, header, length=length)
    with pytest.raises(ConfigError) as error:
        read_header(path)
    assert all(word in str(error.value) for word in [str(path), *words]), error.value


def test_every_cut_of_a_file_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    write_safetensors(path, GOOD)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ConfigError, match="x.safetensors"):
            read_header(path)


def test_files_of_a_folder_share_no_name_and_hold_what_the_index_says(tmp_path):
    write_safetensors(tmp_path / "x.safetensors", GOOD)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "x.safetensors", "c": "y.safetensors"}}))
    with pytest.raises(ConfigError, match="c is not in y.safetensors"):
        read_folder(tmp_path)
    index.unlink()
    write_safetensors(tmp_path / "y.safetensors", {"b": GOOD["b"]})
    with pytest.raises(ConfigError, match="y.safetensors: b: is in .*x.safetensors"):
        read_folder(tmp_path)
