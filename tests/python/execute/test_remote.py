"""What a worker does: files by content, pieces of them put together, and the plug-ins of the study alone."""
import hashlib
import json
import os
import time

import pytest
from vitro.execute import remote
from vitro.execute.task import Limits, Outcome, Task

CONTENT = b"weights" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of the files that were sent here."""
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/files"


def send(sha=SHA, pieces=((0, CONTENT[:3000], False), (3000, CONTENT[3000:], True))):
    return [remote.take_piece(sha, ".gguf", "one", *piece) for piece in pieces][-1]


def needs(tmp_path):
    """A call with a file that is not on this machine."""
    return remote.spec_of(Task("run", ("{}",), files={str(tmp_path / "m.gguf"): SHA}), Limits())


def test_a_file_is_put_together_and_found_by_its_content(fake, kept, tmp_path):
    assert remote.missing(needs(tmp_path)) == {SHA: ".gguf"}
    assert send()
    assert (kept / f"{SHA}.gguf").read_bytes() == CONTENT and remote.missing(needs(tmp_path)) == {}
    assert [path.name for path in kept.iterdir()] == [f"{SHA}.gguf"]


def test_a_piece_that_comes_twice_counts_once(kept):
    first, last = (0, CONTENT[:3000], False), (3000, CONTENT[3000:], True)
    assert send(pieces=(first, (3000, CONTENT[3000:5000], False), last))
    assert (kept / f"{SHA}.gguf").read_bytes() == CONTENT


def test_what_did_not_arrive_whole_is_not_kept(kept):
    assert not send(pieces=((0, CONTENT[:3000], True),))
    assert list(kept.iterdir()) == []


def test_a_file_that_was_damaged_here_is_missing_and_comes_again(fake, kept, tmp_path):
    send()
    (kept / f"{SHA}.gguf").write_bytes(CONTENT[:-1])
    assert remote.missing(needs(tmp_path)) == {SHA: ".gguf"}
    assert send() and remote.missing(needs(tmp_path)) == {}


def test_what_an_interrupted_sending_left_goes_after_a_day(kept):
    kept.mkdir(parents=True)
    for name, age in (("old", 25 * 3600), ("new", 3600)):
        (kept / f".{name}.part").touch()
        os.utime(kept / f".{name}.part", times=(time.time() - age,) * 2)
    send()
    assert sorted(path.name for path in kept.iterdir()) == [".new.part", f"{SHA}.gguf"]


@pytest.mark.parametrize("of_study", [False, True])
def test_a_worker_s_own_plug_ins_are_not_in_a_run(fake, kept, tmp_path, monkeypatch, of_study):
    (tmp_path / "of_study.so").write_bytes(b"1")
    (tmp_path / "of_worker.so").write_bytes(b"2")
    monkeypatch.setenv("VITRO_PLUGINS", str(tmp_path / "of_study.so") if of_study else "")
    spec = remote.spec_of(Task("run", (json.dumps({}),)), Limits())
    monkeypatch.setenv("VITRO_PLUGINS", str(tmp_path / "of_worker.so"))
    given = []
    monkeypatch.setattr(remote, "perform_here", lambda task, limits, children, env: given.append(env) or Outcome(1))
    remote.perform(spec)
    assert given == [{"VITRO_PLUGINS": str(tmp_path / "of_study.so") if of_study else ""}]
