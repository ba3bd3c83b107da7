"""Tensors of a folder of safetensors files: a header in JSON, then the tensors' bytes. Files come from anywhere, so every length and offset
is checked against the file before it is used."""
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError

MOST_HEADER = 100_000_000  # bytes; the format's own limit
TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
         "I8": np.int8, "U8": np.uint8, "BOOL": np.uint8}  # BF16 as its bits


@dataclass(frozen=True)
class Tensor:
    path: Path
    name: str
    type: str  # one of TYPES
    shape: tuple[int, ...]
    begin: int  # in the file
    bytes: int

    def fail(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.path}: {self.name}: {problem}")

    def load(self) -> np.ndarray[Any, Any]:
        with self.path.open("rb") as file:
            file.seek(self.begin)
            data = file.read(self.bytes)
        if len(data) != self.bytes:
            raise self.fail("the file became shorter while it was read")
        return np.frombuffer(data, np.dtype(TYPES[self.type]).newbyteorder("<")).reshape(self.shape)

    def floats(self) -> np.ndarray[Any, Any]:
        """As float32, in which each of its values is one (float64: rounded)."""
        if self.type == "BF16":
            return (self.load().astype(np.uint32) << 16).view(np.float32)
        if self.type not in ("F64", "F32", "F16"):
            raise self.fail(f"holds {self.type} values (expected F16, BF16 or F32)")
        return self.load().astype(np.float32)


def read_folder(folder: Path) -> dict[str, Tensor]:
    """All tensors of all its *.safetensors files, by name."""
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise ConfigError(f"{folder}: has no *.safetensors file")
    found: dict[str, Tensor] = {}
    for path in paths:
        for tensor in read_header(path):
            if tensor.name in found:
                raise tensor.fail(f"is in {found[tensor.name].path} as well")
            found[tensor.name] = tensor
    index = folder / "model.safetensors.index.json"
    if index.exists():
        named = json_object(index).get("weight_map")
        for name, file in (named if isinstance(named, dict) else {}).items():
            if name not in found or found[name].path.name != file:
                raise ConfigError(f"{index}: weight_map: {name} is not in {file}")
    return found


def read_header(path: Path) -> list[Tensor]:
    size = os.path.getsize(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MOST_HEADER):
            raise ConfigError(f"{path}: a header of {length} bytes does not fit in {size} bytes (truncated, or no safetensors file)")
        header = _parse(path, file.read(length).decode("utf-8", "replace"))
    tensors, end = [], 8 + length
    for name, entry in header.items():
        if name != "__metadata__":
            tensors.append(_tensor(path, name, entry, end, size))
    for tensor in sorted(tensors, key=lambda tensor: (tensor.begin, tensor.bytes)):
        if tensor.begin != end:
            raise tensor.fail(f"begins at byte {tensor.begin} (expected {end}, where the tensor before it ends)")
        end = tensor.begin + tensor.bytes
    if end != size:
        raise ConfigError(f"{path}: has {size} bytes (expected {end}, where its last tensor ends)")
    return tensors


def _tensor(path: Path, name: str, entry: Any, start: int, size: int) -> Tensor:
    def fail(problem: str) -> ConfigError:
        return ConfigError(f"{path}: {name}: {problem}")

    if not isinstance(entry, dict) or entry.get("dtype") not in TYPES:
        raise fail(f"dtype {entry.get('dtype') if isinstance(entry, dict) else entry} (expected one of {', '.join(TYPES)})")
    shape, offsets = _naturals(entry.get("shape")), _naturals(entry.get("data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2:
        raise fail(f"shape {entry.get('shape')}, data_offsets {entry.get('data_offsets')} (expected lists of whole numbers from 0 "
                   "on, the second of two)")
    begin, end = offsets
    wanted = np.dtype(TYPES[entry["dtype"]]).itemsize
    for extent in shape:
        wanted *= extent
    if end - begin != wanted:
        raise fail(f"data_offsets {offsets} are {end - begin} bytes (expected {wanted} for {entry['dtype']} {shape})")
    if start + end > size:
        raise fail(f"ends at byte {start + end} of a file of {size} bytes: the file is truncated")
    return Tensor(path, name, entry["dtype"], tuple(shape), start + begin, wanted)


def _naturals(value: Any) -> list[int] | None:
    return value if isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 60 for item in value) else None


def json_object(path: Path) -> dict[str, Any]:
    try:
        return _parse(path, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8 text (byte {error.start})") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = next(name for name in found if sum(name == key for key, _ in pairs) > 1)
            raise ConfigError(f'{path}: has "{twice}" twice')
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: can not be read as JSON ({error})") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: is no JSON object")
    return value
