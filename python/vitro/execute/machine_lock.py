"""Runs beside each other, and measurements alone: between all tasks of one user on one machine, whichever process started them.

Two files are locked: the hall, shared by what may run together and taken whole by a measurement; and the gate, which a measurement closes
while it waits, so that runs that come later do not keep it out.
"""
import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import Lost

_STEP = 0.02  # seconds between two looks at a lock


@contextlib.contextmanager
def room(*, exclusive: bool, ended: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Waits for its place. ended: asked meanwhile; True makes it give up with Lost."""
    folder = Path(tempfile.gettempdir()) / f"vitro-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    with open(folder / "gate", "a") as gate, open(folder / "hall", "a") as hall:
        for file in (gate, hall):
            _wait(file, kind, ended)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _wait(file, kind, ended):
    while True:
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if ended():
                raise Lost("was ended while it waited for the machine") from None
            time.sleep(_STEP)
