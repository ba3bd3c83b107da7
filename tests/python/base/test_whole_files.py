"""Files are put in place whole and on the disk."""
import errno
import os
from pathlib import Path

import pytest
import vitro
from matplotlib.figure import Figure
from vitro.base import whole_files
from vitro.calibrate import measure
from vitro.plot import style
from vitro.report import page
from vitro.study.store import Store


def test_what_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.csv"
    whole_files.put(path, "one")
    with pytest.raises(ValueError), whole_files.in_place(path) as unfinished:
        assert unfinished.suffix == ".csv" and path.read_text() == "one"
        unfinished.write_text("tw")
        raise ValueError
    assert path.read_text() == "one" and os.listdir(tmp_path) == ["a.csv"]


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(vitro.ConfigError, match="expected a file to write"), whole_files.in_place(tmp_path / name):
            pass
    assert os.listdir(tmp_path) == ["pipe"] and (tmp_path / "pipe").is_fifo()


WRITERS = {
    "device": lambda path: vitro.Device({"name": "x", "dram": {}}).save(path),
    "report": lambda path: page.render(path, title="x"),
    "calibration": lambda path: measure.write({"description": "x", "calibration": {"date": "today"}}, path),
    "picture.svg": lambda path: style.save(Figure(), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_text("old")

    def full(self, *args, **more):
        with open(args[0] if isinstance(self, Figure) else self, "w") as file:
            file.write("ha")
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="No space") as error:
        WRITERS[name](path)
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == [name]


def test_a_new_store_is_on_the_disk_with_its_folders(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(handle):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)
    monkeypatch.setattr(os, "fsync", fsync)
    Store(tmp_path / "o").__exit__()
    assert {str(tmp_path), str(tmp_path / "o"), str(tmp_path / "o/store")} <= set(synced)
    assert any("/.format." in path for path in synced), "the content before the name"
