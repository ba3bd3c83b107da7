"""Files that other processes may read or write at the same time: each is put in place whole."""
import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from ..errors import ConfigError


@contextlib.contextmanager
def in_place(path: Path) -> Iterator[Path]:
    """Gives a name beside `path`, with its ending, to write to. What is there at the end takes the place of `path`; nothing does where
    writing fails. Raises ConfigError for what is no regular file: a device or a pipe would be replaced."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is {'a folder' if path.is_dir() else 'no regular file'} (expected a file to write)")
    unfinished = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}.part{path.suffix}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(unfinished)):  # a write does not know to what; without errno the
            error.filename = str(path)                                             # message would be lost
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def put(path: Path, text: str) -> None:
    """A small text that is in place, whole and on the disk when this returns."""
    with in_place(path) as unfinished, open(unfinished, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """With those above it. The entries of all that were made are on the disk when this returns."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in made:
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """What was put into a folder, or taken out of it, is on the disk when this returns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
