"""Recordings in Parquet: a row for each layer, expert, sequence and position, compressed with zstd (docs/guide/traces.md)."""
import hashlib
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
from pyarrow import parquet

from ..base import fingerprints, native
from ..base.cache import cache_folder
from ..base.whole_files import in_place, make_folder
from ..errors import ConfigError

if TYPE_CHECKING:
    import numpy

MAGIC = b"PAR1"
_FORMAT, _VERSION = "vitro.recording", 1
_MADE = 2  # of what engine_file() makes of a content
_ROW = 40  # bytes of a row in memory, at least
_LITTLE, _MOST_DENSE = 256 << 20, 500  # bytes in memory that any file may declare, and those of rows in one byte of a file
_KINDS = ("fired", "experts", "token")  # rows are in this order
_KEYS = {"layer": pyarrow.int16(), "expert": pyarrow.int16(), "sequence": pyarrow.uint32(), "position": pyarrow.uint32()}
_SCHEMA = pyarrow.schema({"kind": pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), **_KEYS, "looked_at": pyarrow.int64(),
                          "ids": pyarrow.large_list(pyarrow.uint32()), "weights": pyarrow.large_list(pyarrow.float32()),
                          "token": pyarrow.int32()})


def is_columnar(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write(tables: Mapping[str, Any], path: Path) -> None:
    """tables: of a vitro.Recording. Whole or not at all."""
    import numpy
    parts = [tables[name] for name in ("fired", "experts", "tokens")]
    counts = [len(part["keys"]) for part in parts]
    fired, chosen = (_ends(part) for part in parts[:2])
    keys = numpy.concatenate([part["keys"] for part in parts])
    ids = numpy.concatenate([fired, fired[-1] + chosen[1:], numpy.full(counts[2], fired[-1] + chosen[-1])])
    weights = numpy.concatenate([numpy.zeros(counts[0], "int64"), chosen, numpy.full(counts[2], chosen[-1])])
    columns = [pyarrow.DictionaryArray.from_arrays(numpy.repeat(numpy.arange(3, dtype="int8"), counts), list(_KINDS)),
               *(pyarrow.array(keys[:, at]).cast(kind) for at, kind in enumerate(_KEYS.values())),
               pyarrow.array(numpy.concatenate([parts[0]["looked_at"], numpy.zeros(sum(counts[1:]), "int64")])),
               pyarrow.LargeListArray.from_arrays(ids, numpy.concatenate([parts[0]["ids"], parts[1]["ids"]])),
               pyarrow.LargeListArray.from_arrays(weights, parts[1]["weights"]),
               pyarrow.array(numpy.concatenate([numpy.zeros(sum(counts[:2]), "int32"), parts[2]["ids"]]))]
    about = {"format": _FORMAT, "version": str(_VERSION), "about": json.dumps(tables["about"])}
    with in_place(path) as unfinished:
        parquet.write_table(pyarrow.table(columns, schema=_SCHEMA.with_metadata(about)), unfinished, compression="zstd",
                            use_dictionary=["kind"], column_encoding={"ids.list.element": "DELTA_BINARY_PACKED"})


def read(path: str | os.PathLike[str], data: bytes | None = None) -> dict[str, Any]:
    """-> tables of a vitro.Recording. data: the file's content, where it is there already. Raises ConfigError, with the file's name, for
    what is none, and for what does not fit into memory."""
    try:
        with parquet.ParquetFile(path if data is None else pyarrow.BufferReader(data)) as file:
            told = _check_before(file, os.path.getsize(path) if data is None else len(data))
            return _tables(file.read(), told)
    except MemoryError:
        raise ConfigError(f"{path}: does not fit into memory") from None
    except (pyarrow.ArrowException, ValueError, UnicodeDecodeError, RecursionError, OSError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{path}: is not a recording in Parquet: {said}") from None


def engine_file(path: str) -> str:
    """The same recording as the engine reads it, for the extension module: made once for each content, in the cache folder."""
    made = _made_file(fingerprints.of_file(path))
    if made.exists():
        return str(made)
    data = Path(path).read_bytes()
    made = _made_file(hashlib.sha256(data).hexdigest())  # the file may have been written again since
    make_folder(made.parent)
    tables = read(path, data)
    if (tables["fired"]["looked_at"] < 0).any():
        raise ConfigError(f"{path}: some neurons of the recording were not looked at, so it can not be replayed (expected one made "
                          "with engine.clusters.measure)")
    with in_place(made) as unfinished:
        native.call("write_recording", str(unfinished), *(tables[name] for name in ("about", "fired", "experts", "tokens")))
    return str(made)


def _made_file(content: str) -> Path:
    return cache_folder() / "recordings" / f"{content}.{_MADE}.vtrc"


def _check_before(file: parquet.ParquetFile, size: int) -> dict[str, str]:
    """What can be said before rows are read. -> about"""
    columns = file.schema_arrow
    about = {key.decode(): value.decode() for key, value in (columns.metadata or {}).items()}
    if about.get("format") != _FORMAT:
        raise ValueError(f"is Parquet, and no recording (expected metadata `format`: {_FORMAT})")
    if about.get("version") != str(_VERSION):
        raise ValueError(f"is of version {about.get('version')} (this vitro reads {_VERSION})")
    for found, expected in itertools.zip_longest(columns, _SCHEMA):
        if found is None or expected is None or not found.equals(expected):
            raise ValueError(f"has {_named(found)} where {_named(expected)} is expected")
    _check_size(file.metadata, size)
    told = json.loads(about.get("about", "{}"))
    if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
        raise ValueError("has an `about` that is no map from texts to texts")
    return told


def _check_size(about: Any, size: int) -> None:
    """Of what a file declares: little of it may become much in memory."""
    if about.num_rows * _ROW > max(_LITTLE, size * _MOST_DENSE):
        raise ValueError(f"declares {about.num_rows} rows in {size} bytes")
    groups = [about.row_group(at) for at in range(about.num_row_groups)]
    needed = max(sum(group.total_byte_size for group in groups),
                 4 * sum(group.column(at).num_values for group in groups for at in range(group.num_columns)))
    if needed > max(_LITTLE, _memory()):
        raise ValueError(f"declares {needed} bytes of rows in {size} bytes, and this machine has {_memory()} bytes of memory")


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _named(column: pyarrow.Field | None) -> str:
    return "no further column" if column is None else f"column `{column.name}` of {column.type}"


def _tables(table: pyarrow.Table, told: dict[str, str]) -> dict[str, Any]:
    import numpy
    if any(column.null_count for column in table.columns):
        raise ValueError("has cells without a value")
    kinds = table["kind"].combine_chunks().cast(pyarrow.string()).dictionary_encode()
    names = kinds.dictionary.to_pylist()
    if unknown := [name for name in names if name not in _KINDS]:
        raise ValueError(f"has rows of kind {unknown[0]!r} (expected one of: {', '.join(_KINDS)})")
    kind = numpy.array([_KINDS.index(name) for name in names], "int8")[kinds.indices.to_numpy()] if names else numpy.zeros(0, "int8")
    if (numpy.diff(kind) < 0).any():
        raise ValueError("has rows of a kind that are not together")
    first, second = numpy.searchsorted(kind, [1, 2])
    keys = numpy.stack([table[name].to_numpy() for name in _KEYS], axis=1).astype("int64").reshape(-1, len(_KEYS))
    for rows in (keys[:first], keys[first:second], keys[second:]):
        _check_keys(rows)
    ids, ends = _lists(table["ids"])
    weights, weight_ends = _lists(table["weights"])
    looked_at = table["looked_at"].to_numpy()[:first]
    of_fired = int(ends[first])
    _check(ids, ends, weight_ends, first, second)
    _check_looked_at(looked_at, ids, ends)
    return {"about": told,
            "fired": {"keys": keys[:first], "ends": ends[1:first + 1], "ids": ids[:of_fired], "looked_at": looked_at},
            "experts": {"keys": keys[first:second], "ends": ends[first + 1:second + 1] - of_fired, "ids": ids[of_fired:],
                        "weights": weights},
            "tokens": {"keys": keys[second:], "ids": table["token"].to_numpy()[second:]}}


def _ends(part: Mapping[str, Any]) -> "numpy.ndarray":
    import numpy
    return numpy.concatenate([[0], part["ends"]]).astype("int64")


def _lists(column: pyarrow.ChunkedArray) -> "tuple[numpy.ndarray, numpy.ndarray]":
    """-> (all values, where the list of each row begins and the last one ends)"""
    lists = column.combine_chunks()
    offsets = lists.offsets.to_numpy()
    return lists.flatten().to_numpy(), offsets - offsets[0]


def _check(ids, ends, weight_ends, first, second):
    import numpy
    fired = ids[:ends[first]]
    rises = fired[1:] > fired[:-1]
    rises[ends[1:first][(ends[1:first] > 0) & (ends[1:first] < len(fired))] - 1] = True  # from one row to the next
    if not rises.all():
        raise ValueError("has neurons of a row that do not ascend")
    if ends[-1] != ends[second] or (numpy.diff(ends[first:second + 1]) != numpy.diff(weight_ends[first:second + 1])).any() or (
            weight_ends[first] != 0 or weight_ends[-1] != weight_ends[second]):
        raise ValueError("has rows whose ids and weights do not fit their kind")
    if (ids[ends[first]:] > 65535).any():
        raise ValueError("has experts above 65535")


def _check_keys(keys):
    import numpy
    if (keys[:, :2] < -1).any():
        raise ValueError("has a layer or an expert below -1")
    high, low = (keys[:, 0] + 1 << 48) + (keys[:, 1] + 1 << 32) + keys[:, 2], keys[:, 3]
    if not ((high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))).all():  # most files are in order
        order = numpy.lexsort((low, high))
        twice = numpy.flatnonzero((numpy.diff(high[order]) == 0) & (numpy.diff(low[order]) == 0))
        if len(twice):
            layer, expert, sequence, position = keys[order[twice[0]]].tolist()
            raise ValueError(f"has two rows of layer {layer}, expert {expert}, sequence {sequence}, position {position} of a kind")


def _check_looked_at(looked_at, ids, ends):
    import numpy
    if ((looked_at < -1) | (looked_at >= 2 ** 32)).any():
        raise ValueError(f"has rows whose looked_at is no number of neurons (expected -1 to {2 ** 32 - 1})")
    rows = numpy.flatnonzero((looked_at >= 0) & (ends[1:len(looked_at) + 1] > ends[:len(looked_at)]))
    if (ids[ends[rows + 1] - 1] >= looked_at[rows]).any():
        raise ValueError("has active neurons beyond those that were looked at")
