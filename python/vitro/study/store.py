"""The store of a study: a folder in which finished points stay, whatever happens to the process that ran them.

    DIR/store/format.json     the version of this layout
    DIR/store/parts/*.parquet the rows (parts.py): readable by themselves at any time, with pandas, DuckDB or polars
    DIR/store/index.sqlite    which part has which row (index.py); made again where it is missing
    DIR/store/owners/         a lock file for each process at work (owners.py)
    DIR/store/adopted         the points of before the store are rows now, or were left behind by a run without --resume

A row counts from the moment its part is in place and on the disk. Several processes may work in one store: each point is claimed by the one
that runs it, and a claim ends with its process.
"""
import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import inputs, whole_files
from ..base.version import __version__
from ..errors import ConfigError, RunError
from . import parts
from .index import Index, Key
from .owners import Owner, others

if TYPE_CHECKING:
    import pandas

FORMAT = 1
_MANY = 32             # parts, before they are joined to one
_RESERVE = 4 << 20     # bytes, given back when the disk is full, so that what has finished still finds room


class Store:
    """Of the folder DIR, open for writing."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder) / "store"
        self.parts = self.folder / "parts"
        with self._telling():
            whole_files.make_folder(self.parts)
            _check_format(self.folder, write=True)
            for left in self.parts.glob(".*.part"):  # of a process that was ended while it wrote
                if not others_at_work(self.folder):
                    left.unlink(missing_ok=True)
            self._keep_reserve()
            self._owner = Owner(self.folder / "owners")
            try:
                self.index = Index(self.folder / "index.sqlite", self.parts, self.others)
            except BaseException:
                self._owner.close()
                raise
        self._answers: dict[str, dict[Key, dict[str, Any]]] = {}

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *raised: object) -> None:
        self.index.close()
        self._owner.close()

    def others(self) -> list[str]:
        """Names of other processes at work here, which start with their process ids."""
        return others(self.folder / "owners", self._owner.name)

    def answer(self, key: Key) -> dict[str, Any] | None:
        """The result in a finished row, or None."""
        with self._telling():
            try:
                return self._answer_in(self.index.part_of(key), key)
            except FileNotFoundError:  # joined to others since, or forgotten
                self.index.follow()
                return self._answer_in(self.index.part_of(key), key)

    def _answer_in(self, part: str | None, key: Key) -> dict[str, Any] | None:
        if part is None:
            return None
        if part not in self._answers:
            self._answers[part] = {(row["identity"], row["repeat"]): parts.answer_of(row) for row in parts.read(self.parts / part)}
        return self._answers[part][key]

    def claim(self, key: Key, *, waited: bool = False) -> str:
        """-> "mine": to be run here; "done": has a row; "theirs": another process runs it. waited: for that one before, so that its
        failure counts here, too: "failed"."""
        with self._telling(), self.index.change() as db:
            owner = db.execute("select owner from claims where identity = ? and repeat = ?", key).fetchone()
            if owner and owner[0] in self.others():
                return "theirs"
            if owner:  # it may have ended between a part and its entry in the index
                self.index.follow_within(db)
            if self.index.part_of(key):
                return "done"
            if waited and self.index.failure_of(key):
                return "failed"
            db.execute("insert or replace into claims values (?, ?, ?)", (*key, self._owner.name))
            db.execute("delete from failures where identity = ? and repeat = ?", key)
            return "mine"

    def add(self, job: dict[str, Any], answer: dict[str, Any]) -> None:
        """Writes a finished point down. job: its columns, among them `identity` and `repeat`."""
        key, row = (job["identity"], job["repeat"]), parts.row_of(job, answer)
        try:
            name = parts.write(self.parts, [row])
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            (self.folder / "reserve").unlink(missing_ok=True)
            with self._telling():
                name = parts.write(self.parts, [row])
            raise self._full() from None
        with self._telling(), self.index.change() as db:
            self.index.take_up(db, name, [key])

    def add_failure(self, key: Key, error: str, refused: bool) -> None:
        """A point that failed has no row: it runs again. Until then other processes read why."""
        with self._telling(), self.index.change() as db:
            db.execute("insert or replace into failures values (?, ?, ?, ?)", (*key, error, refused))
            db.execute("delete from claims where identity = ? and repeat = ?", key)

    def forget(self, keys: Sequence[Key], *, since: str | None = None) -> None:
        """Removes the rows of these points. since (UTC, as utc() writes it): only those that had finished before, and other processes may
        be at work; without it, raises ConfigError where one is."""
        gone, old = set(keys), []
        with self._telling(), self.index.change() as db:
            if not since and (busy := self.others()):
                raise ConfigError(f"{self.folder}: process {busy[0].partition('-')[0]} is at work there (expected --resume, to work beside "
                                  "it and keep what it has finished, or another folder)")
            self.index.follow_within(db)
            for part in sorted({part for key in gone if (part := self.index.part_of(key))}):
                rows = parts.read(self.parts / part)
                kept = [row for row in rows if (row["identity"], row["repeat"]) not in gone or (since and row["finished"] >= since)]
                if len(kept) < len(rows):
                    self.index.replace(db, part, kept)
                    old.append(part)
            for key in gone if not since else ():
                db.execute("delete from failures where identity = ? and repeat = ?", key)
        self._take_away(old)

    def join_parts(self) -> None:
        """Many parts of one row become one part, when nobody else is at work."""
        def single() -> list[str]:
            return [name for name in parts.listed(self.parts) if not name.startswith("joined-")]
        if len(single()) < _MANY:
            return
        with self._telling(), self.index.change() as db:
            if self.others():
                return
            self.index.follow_within(db)
            old, wanted = single(), self.index.rows()
            rows = [row for name in old for row in parts.read(self.parts / name)
                    if wanted.get((row["identity"], row["repeat"])) == name]
            name = parts.write(self.parts, rows, "joined-")
            for part in old:
                db.execute("delete from rows where part = ?", (part,))
            self.index.take_up(db, name, [(row["identity"], row["repeat"]) for row in rows])
        self._take_away(old)

    def _take_away(self, names: Sequence[str]) -> None:
        """Parts without a listed row, after that is on the disk. Those that a crash leaves go at the index's next look."""
        for name in names:
            (self.parts / name).unlink(missing_ok=True)
            self._answers.pop(name, None)
        if names:
            whole_files.sync_folder(self.parts)

    def _keep_reserve(self) -> None:
        path = self.folder / "reserve"
        if path.exists() and path.stat().st_size >= _RESERVE:
            return
        try:
            with open(path, "ab") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._full() from None
            raise
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise self._full() from None
            raise RunError(f"{self.folder / 'index.sqlite'}: {error}") from None
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:
                raise
            raise RunError(f"{self.folder / 'index.sqlite'}: {error} (delete it when no process is at work there, then go on with "
                           "--resume: it is made again from the parts)") from None

    def _full(self) -> RunError:
        return RunError(f"{self.folder}: the disk is full; {len(parts.listed(self.parts))} parts with finished points are whole and stay "
                        "(make room, then go on with --resume)")


def others_at_work(folder: Path) -> list[str]:
    owners = folder / "owners"
    return others(owners, "") if owners.is_dir() else []


def _check_format(folder: Path, write: bool = False) -> None:
    path = folder / "format.json"
    if write and not path.exists():
        whole_files.put(path, json.dumps({"schema": f"vitro.store/{FORMAT}", "vitro": __version__}) + "\n")
    try:
        said = json.loads(path.read_text())
        name, _, number = said["schema"].partition("/")
        newer = int(number) > FORMAT
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path}: is missing or damaged (expected {{\"schema\": \"vitro.store/{FORMAT}\"}}); "
                          f"{folder} is no store of a study") from None
    if name != "vitro.store" or newer:
        raise ConfigError(f"{path}: {said['schema']}, written by vitro {said.get('vitro')} (this is vitro {__version__}, which reads up to "
                          f"vitro.store/{FORMAT}: use that version, or another folder)")


def rows(folder: inputs.Path, *, without: Sequence[str] = ()) -> "pandas.DataFrame":
    """The finished rows of a study's folder, oldest first, also while it runs: columns as in parts.py, and `point.KEY` for each key of the
    points. without: columns that are not read. Raises ConfigError where there is no store, or a newer one."""
    import pandas
    store = Path(folder) / "store"
    _check_format(store)
    found: dict[Key, dict[str, Any]] = {}
    missed = True
    while missed:  # a part that is gone was joined with others since it was listed
        missed = False
        for name in parts.listed(store / "parts"):
            try:
                for row in parts.read(store / "parts" / name, without=without):
                    found.setdefault((row["identity"], row["repeat"]), row)
            except FileNotFoundError:
                missed = True
    ordered = sorted(found.values(), key=lambda row: row["finished"])
    return pandas.DataFrame([row | {f"point.{key}": value if isinstance(value, (str, int, float, bool, type(None))) else json.dumps(value)
                                    for key, value in json.loads(row["point"]).items()} for row in ordered])
