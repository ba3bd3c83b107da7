"""Folders for temporary files that go with their process: one that was killed leaves its folder, which the next one removes."""
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "vitro-tables-"


@contextmanager
def folder() -> Iterator[Path]:
    """-> an empty folder, which is removed at the end. Removes those of this user that nobody holds any more."""
    _clear()
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX))
        handle = _held(made)
        if handle is not None:
            break  # else another process found it before this one held it, and removes it
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)


def _clear() -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        handle = _held(left)
        if handle is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(handle)


def _held(path: Path) -> int | None:
    """The open folder, locked for this process; None where another one has it, or it is gone or not this user's."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_uid == os.getuid() and path.exists():
                return handle
        except OSError:
            pass
        os.close(handle)
    return None
