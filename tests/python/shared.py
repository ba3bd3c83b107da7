"""What several files of tests need and takes seconds to make: once for all of pytest's processes."""
import fcntl
import os
import pickle


def once(tmp_path_factory, name, make):
    """-> what `make()` gave the first time that any process of this run asked for `name`."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    file = folder / f"{name}.pickle"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(make()))
    return pickle.loads(file.read_bytes())
