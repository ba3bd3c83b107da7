"""Folders for temporary files: there while they are held, and removed later where a process was killed."""
import os
import signal
import subprocess
import sys

import pytest
from vitro.trace import scratch

CHILD = """
import sys, time
from vitro.trace import scratch
with scratch.folder() as folder:
    (folder / "a").write_text("a")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_it_is_there_until_the_end_also_where_that_is_an_error(place):
    with pytest.raises(ZeroDivisionError), scratch.folder() as one, scratch.folder() as two:
        assert one != two and sorted(place.iterdir()) == sorted([one, two]) and not list(one.iterdir())
        (one / "a").mkdir()
        raise ZeroDivisionError
    assert not list(place.iterdir())


def test_that_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(place):
    (place / "other").mkdir()
    os.symlink(place / "other", place / "vitro-tables-link")
    children = [subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        living, killed = (child.stdout.readline().strip() for child in children)
        children[1].send_signal(signal.SIGKILL)
        children[1].wait()
        assert os.path.exists(killed)
        with scratch.folder() as mine:
            assert not os.path.exists(killed) and os.path.exists(f"{living}/a") and mine.exists() and (place / "other").exists()
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()
