"""The index of a store, in SQLite: which part has which row, who runs which point, and what failed.

Parts are the truth, and the index follows them: one that was lost or damaged is made again from them. All changes are transactions, so
processes see each other's whole.
"""
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import RunError
from . import parts

Key = tuple[str, int]  # identity, repeat
_SCHEMA = """
create table if not exists parts(name text primary key);
create table if not exists rows(identity text, repeat integer, part text, primary key(identity, repeat));
create index if not exists rows_of_part on rows(part);
create table if not exists claims(identity text, repeat integer, owner text, primary key(identity, repeat));
create table if not exists failures(identity text, repeat integer, error text, refused integer, primary key(identity, repeat));
"""


class Index:
    """Of the parts in one folder. others: the names of the other processes that may have it open, which start with their ids.
    Raises RunError where it is damaged and they have."""

    def __init__(self, path: Path, folder: Path, others: Callable[[], list[str]] = list) -> None:
        self.path, self.folder = path, folder
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            if busy := others():
                raise RunError(f"{path}: {error}, and process {busy[0].partition('-')[0]} has it open (expected --resume when that has "
                               "ended, which makes the index again)") from None
            self._db.close()
            for name in (path, path.with_name(f"{path.name}-journal")):  # damaged: parts say all that it said
                name.unlink(missing_ok=True)
            self._open()

    def _open(self):
        self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        self._db.executescript("pragma synchronous = normal; " + _SCHEMA)
        self.follow()

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction that keeps other processes from changing anything, parts included."""
        self._db.execute("begin immediate")
        try:
            yield self._db
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def follow(self) -> None:
        """Takes up parts that it does not know and forgets those that are gone. Then each row of each part is listed once, as coming from
        that part: what a crash left behind (rows that were joined to another part, or were forgotten) is taken away."""
        with self.change() as db:
            self.follow_within(db)

    def follow_within(self, db: sqlite3.Connection) -> None:
        """The same within a transaction."""
        there, known = parts.listed(self.folder), {name for name, in db.execute("select name from parts")}
        for name in known.difference(there):
            db.execute("delete from rows where part = ?", (name,))
            db.execute("delete from parts where name = ?", (name,))
        for name in sorted((name for name in there if name not in known), key=lambda name: not name.startswith("joined-")):
            keys = [(row["identity"], row["repeat"]) for row in parts.read(self.folder / name, ["identity", "repeat"])]
            self.take_up(db, name, keys)
            own = {key for key in keys if self.part_of(key) == name}
            if own and len(own) < len(keys):
                self.replace(db, name, [row for row in parts.read(self.folder / name) if (row["identity"], row["repeat"]) in own])
        used = {name for name, in db.execute("select distinct part from rows")}
        for name in set(there).difference(used):
            (self.folder / name).unlink(missing_ok=True)
            db.execute("delete from parts where name = ?", (name,))

    def replace(self, db: sqlite3.Connection, name: str, kept: list[dict[str, Any]]) -> None:
        """Those rows of a part become a new part, and it has none any more. The next look takes its file away, if nobody did before."""
        db.execute("delete from rows where part = ?", (name,))
        if kept:
            self.take_up(db, parts.write(self.folder, kept, "joined-"), [(row["identity"], row["repeat"]) for row in kept])

    @staticmethod
    def take_up(db: sqlite3.Connection, name: str, keys: list[Key]) -> None:
        db.execute("insert or ignore into parts values (?)", (name,))
        for key in keys:
            db.execute("insert or ignore into rows values (?, ?, ?)", (*key, name))
            db.execute("delete from failures where identity = ? and repeat = ?", key)
            db.execute("delete from claims where identity = ? and repeat = ?", key)

    def part_of(self, key: Key) -> str | None:
        found = self._db.execute("select part from rows where identity = ? and repeat = ?", key).fetchone()
        return found and found[0]

    def rows(self) -> dict[Key, str]:
        return {(identity, repeat): part for identity, repeat, part in self._db.execute("select * from rows")}

    def failure_of(self, key: Key) -> tuple[str, bool] | None:
        """-> (error, whether the input was refused)"""
        found = self._db.execute("select error, refused from failures where identity = ? and repeat = ?", key).fetchone()
        return found and (found[0], bool(found[1]))

    def close(self) -> None:
        self._db.close()
