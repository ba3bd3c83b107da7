"""Who works in a store: each process holds the lock of a file of its own, which the kernel lets go of when the process ends, however."""
import fcntl
import os
import uuid
from pathlib import Path


class Owner:
    """This process, from making to close()."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.path = folder / self.name
        self._file = open(self.path, "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        while not _lies_at(self._file, self.path):  # another process took it away before it was locked
            self._file.close()
            self._file = open(self.path, "w")
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        self._file.close()


def _lies_at(file, path):
    """Whether an open file is still the one that its folder lists."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def others(folder: Path, own: str) -> list[str]:
    """The names of the other processes that are at work. Files of those that ended are taken away."""
    alive = []
    for path in folder.iterdir():
        if path.name == own:
            continue
        try:
            with open(path, "r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _lies_at(file, path):  # else it is another file now, whose owner just made it
                    path.unlink(missing_ok=True)
        except BlockingIOError:
            alive.append(path.name)
        except FileNotFoundError:
            pass
    return sorted(alive)
