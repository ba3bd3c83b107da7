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

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        self._file.close()


def others(folder: Path, own: str) -> list[str]:
    """The names of the other processes that are at work. Files of those that ended are taken away."""
    alive = []
    for path in folder.iterdir():
        if path.name == own:
            continue
        try:
            with open(path) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        except BlockingIOError:
            alive.append(path.name)
        except FileNotFoundError:
            pass
    return sorted(alive)
