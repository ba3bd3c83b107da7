"""Files are put in place whole and on the disk."""
import os

import pytest
from vitro.base import whole_files
from vitro.study.store import Store


def test_what_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.csv"
    whole_files.put(path, "one")
    with pytest.raises(ValueError), whole_files.in_place(path) as unfinished:
        assert unfinished.suffix == ".csv" and path.read_text() == "one"
        unfinished.write_text("tw")
        raise ValueError
    assert path.read_text() == "one" and os.listdir(tmp_path) == ["a.csv"]


def test_a_new_store_is_on_the_disk_with_its_folders(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(handle):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)
    monkeypatch.setattr(os, "fsync", fsync)
    Store(tmp_path / "o").__exit__()
    assert {str(tmp_path), str(tmp_path / "o"), str(tmp_path / "o/store")} <= set(synced)
    assert any("/.format." in path for path in synced), "the content before the name"
