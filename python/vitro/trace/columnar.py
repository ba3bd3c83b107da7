"""Recordings in Parquet: a row for each layer, expert, sequence and position, compressed with zstd (docs/guide/traces.md)."""
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


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """-> tables of a vitro.Recording. Raises ConfigError, with the file's name, for what is none."""
    import numpy
    try:
        table = parquet.read_table(path)
        about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        if about.get("format") != _FORMAT:
            raise ValueError(f"is Parquet, and no recording (expected metadata `format`: {_FORMAT})")
        if about.get("version") != str(_VERSION):
            raise ValueError(f"is of version {about.get('version')} (this vitro reads {_VERSION})")
        if table.schema.remove_metadata() != _SCHEMA:
            raise ValueError(f"has other columns: {', '.join(table.schema.names)}")
        if any(column.null_count for column in table.columns):
            raise ValueError("has cells without a value")
        told = json.loads(about.get("about", "{}"))
        if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
            raise ValueError("has an `about` that is no map from texts to texts")
        kinds = table["kind"].combine_chunks().cast(pyarrow.string()).dictionary_encode()
        order = [_KINDS.index(name) for name in kinds.dictionary.to_pylist()]
        kind = numpy.array(order, "int8")[kinds.indices.to_numpy()] if order else numpy.zeros(0, "int8")
        if (numpy.diff(kind) < 0).any():
            raise ValueError("has rows of a kind that are not together")
        first, second = numpy.searchsorted(kind, [1, 2])
        keys = numpy.stack([table[name].to_numpy() for name in _KEYS], axis=1).astype("int64").reshape(-1, len(_KEYS))
        ids, ends = _lists(table["ids"])
        weights, weight_ends = _lists(table["weights"])
        of_fired = int(ends[first])
        _check(ids, ends, weight_ends, first, second)
        return {"about": told,
                "fired": {"keys": keys[:first], "ends": ends[1:first + 1], "ids": ids[:of_fired],
                          "looked_at": table["looked_at"].to_numpy()[:first]},
                "experts": {"keys": keys[first:second], "ends": ends[first + 1:second + 1] - of_fired, "ids": ids[of_fired:],
                            "weights": weights},
                "tokens": {"keys": keys[second:], "ids": table["token"].to_numpy()[second:]}}
    except (pyarrow.ArrowException, ValueError, UnicodeDecodeError, RecursionError, OSError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{path}: is not a recording in Parquet: {said}") from None


def engine_file(path: str) -> str:
    """The same recording as the engine reads it, for the extension module: made once for each content, in the cache folder."""
    folder = cache_folder() / "recordings"
    made = folder / f"{fingerprints.of_file(path)}.vtrc"
    if not made.exists():
        make_folder(folder)
        tables = read(path)
        if (tables["fired"]["looked_at"] < 0).any():
            raise ConfigError(f"{path}: some neurons of the recording were not looked at, so it can not be replayed (expected one made "
                              "with engine.clusters.measure)")
        with in_place(made) as unfinished:
            native.call("write_recording", str(unfinished), *(tables[name] for name in ("about", "fired", "experts", "tokens")))
    return str(made)


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
