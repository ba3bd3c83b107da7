"""Parts of a store: Parquet files of one row or more, each put in place whole and on the disk before it counts.

Columns of every part: identity, repeat (0 for the first of equal points), format, vitro, engine, revision, dirty, machine, experiment,
label, point (JSON), files (JSON: {path: SHA-256}), host (JSON or null), tries, began, finished (UTC), wall_s, resolved (JSON), answer
(JSON: the result without its resolved experiment), and one column of numbers per metric, named as in a result with dots.
"""
import json
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.trees import flatten
from ..base.version import __version__
from ..errors import ConfigError
from ..base.whole_files import sync_folder

FORMAT = 1
_TEXTS = ("identity", "machine", "experiment", "point", "files", "finished", "answer", "resolved")  # that every row has


def row_of(job: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """A finished point as a row. job: the columns that are known before it runs."""
    answer = dict(answer)
    resolved = answer.pop("experiment_resolved", None)
    metrics = {name: float(value) for name, value in flatten(answer.get("metrics") or {}).items()
               if isinstance(value, (int, float)) and not isinstance(value, bool)}
    return {**job, "format": FORMAT, "vitro": __version__, "finished": utc(), "wall_s": answer.get("wall_s"), "answer": json.dumps(answer),
            "resolved": json.dumps(resolved), **{name: value for name, value in metrics.items() if name not in job}}


def answer_of(row: dict[str, Any]) -> dict[str, Any]:
    """The result that a row holds."""
    return json.loads(row["answer"]) | {"experiment_resolved": json.loads(row["resolved"])}


def write(folder: Path, rows: list[dict[str, Any]], prefix: str = "") -> str:
    """-> the name of the new part: whole, in place and on the disk when this returns."""
    import pyarrow
    from pyarrow import parquet
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pyarrow.table({name: _column([row.get(name) for row in rows]) for name in names})
    table = table.replace_schema_metadata({"vitro.format": str(max(row["format"] for row in rows)), "vitro.version": __version__})
    name = f"{prefix}{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
    unfinished = folder / f".{name}.part"
    try:
        with open(unfinished, "wb") as file:
            parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / name)
        sync_folder(folder)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return name


def _column(values):
    import pyarrow
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {float} or not kinds:
        return pyarrow.array(values, pyarrow.float64() if kinds else pyarrow.string())
    return pyarrow.array(values, {str: pyarrow.string(), bool: pyarrow.bool_(), int: pyarrow.int64()}[kinds.pop()])


def read(path: Path, columns: list[str] | None = None, *, without: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a part. columns: only these. without: columns that are left on the disk. Raises ConfigError for a part of a newer
    version, or a damaged one."""
    import pyarrow
    from pyarrow import parquet
    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        said = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
        if int(said.get("vitro.format", 0)) > FORMAT:
            raise ConfigError(f"{path}: rows of format {said['vitro.format']}, written by vitro {said.get('vitro.version')} (this is vitro "
                              f"{__version__}, which reads up to format {FORMAT}: use that version, or another folder)")
        wanted = columns or [name for name in file.schema_arrow.names if name not in without]
        rows = file.read(wanted).to_pylist()
        for name in _TEXTS if columns is None else ():  # pages have checksums; names and types of columns have none
            if name not in without and not all(isinstance(row.get(name), str) for row in rows):
                raise ValueError(f"{name} is no text")
        return rows
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # of pages that can not be decoded, pyarrow raises a bare OSError
        if isinstance(error, OSError) and error.errno:
            raise
        raise ConfigError(f"{path}: is damaged ({' '.join(str(error).split())}); without it its points run again") from None


def listed(folder: Path) -> list[str]:
    """The parts that are there, oldest first."""
    return sorted((path.name for path in folder.glob("[!.]*.parquet")), key=lambda name: name.split("-")[-2:])


def utc() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
