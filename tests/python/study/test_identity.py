"""What is a point: whatever changes its row changes its identity, and nothing else does."""
import shutil
import subprocess

import pytest
from conftest import ROOT
from vitro.base import fingerprints
from vitro.running import experiments
from vitro.study.identity import identity_of, outputs_of

MODEL = ROOT / "configs/models/embedded/stories-reglu-3m.q4_0.gguf"


@pytest.fixture
def real(native, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, tmp_path / "m.gguf")
    return tmp_path


def composed(gguf, machine="host", **overrides):
    text = {"experiment": "x", "machine": "host", "model": {"gguf": str(gguf)}, "workload": {"prompt": "hi", "output_tokens": 1},
            "device": str(ROOT / "configs/devices/oneplus12.yaml")}
    return experiments.compose(text, overrides=overrides, machine=machine).resolved


def digest(*given, **more):
    return identity_of(composed(*given, **more)).digest


def test_a_model_is_its_content(real):
    (real / "elsewhere").mkdir()
    shutil.copy(MODEL, real / "elsewhere/other.gguf")
    first = identity_of(composed(real / "m.gguf"))
    assert list(first.files) == [str(real / "m.gguf")]
    assert digest(real / "elsewhere/other.gguf") == first.digest
    with open(real / "m.gguf", "ab") as file:
        file.write(b"\0")
    assert digest(real / "m.gguf") != first.digest


def test_a_file_that_was_replaced_with_equal_size_and_times_is_noticed(tmp_path):
    import os
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("one")
    other.write_text("two")
    os.utime(path, (1, 1))
    os.utime(other, (1, 1))
    before = fingerprints.of_file(path)
    other.replace(path)
    assert fingerprints.of_file(path) != before


def test_a_recording_that_is_read_counts_and_one_that_is_written_does_not(real):
    (real / "r.vtrc").write_bytes(b"one")
    replayed = {"engine.function": "replay", "engine.replay": "r.vtrc"}
    first = digest(real / "m.gguf", **replayed)
    written = composed(real / "m.gguf", **{"engine.record": "r.vtrc"})
    recorded = identity_of(written).digest
    assert outputs_of(written) == [str(real / "r.vtrc")]
    (real / "r.vtrc").write_bytes(b"two")
    assert digest(real / "m.gguf", **replayed) != first
    assert digest(real / "m.gguf", **{"engine.record": "r.vtrc"}) == recorded


def test_an_engine_that_was_built_anew_counts(real, monkeypatch):
    before = digest(real / "m.gguf")
    monkeypatch.setattr(fingerprints, "engine", lambda: "another")
    assert digest(real / "m.gguf") != before


def test_the_machine_counts_for_host_runs_alone(real, monkeypatch):
    host, sim = digest(real / "m.gguf"), digest(real / "m.gguf", machine="sim")
    monkeypatch.setattr(fingerprints, "host", lambda: {"name": "elsewhere"})
    assert digest(real / "m.gguf") != host and digest(real / "m.gguf", machine="sim") == sim


def test_plugins_of_the_environment_count(real, monkeypatch):
    before = digest(real / "m.gguf")
    (real / "p.so").write_bytes(b"one")
    monkeypatch.setenv("VITRO_PLUGINS", str(real / "p.so"))
    one = digest(real / "m.gguf")
    (real / "p.so").write_bytes(b"two")
    assert len({before, one, digest(real / "m.gguf")}) == 3


def test_names_and_what_judges_do_not_count(real):
    before = digest(real / "m.gguf")
    assert digest(real / "m.gguf", experiment="y", expect={"a": {"metric": "ttft_ms", "max": 1}}, sweep={"seed": [1]}) == before
    assert digest(real / "m.gguf", seed=7) != before


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, "-c", "user.name=n", "-c", "user.email=e", *words], capture_output=True, text=True,
                          check=True).stdout.strip()


def test_the_revision_is_that_of_the_checkout(native):
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    changed = bool(git(ROOT, "status", "--porcelain", "--untracked-files=no"))
    assert fingerprints.revision() == (git(ROOT, "rev-parse", "HEAD"), changed)


def test_the_revision_follows_commits_and_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "engine_file", lambda: str(tmp_path / "m.so"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert fingerprints.revision() == (None, False)
    git(tmp_path, "init", "-q")
    for text in ("one", "two"):
        (tmp_path / "a").write_text(text)
        git(tmp_path, "add", "a")
        git(tmp_path, "commit", "-qm", text)
        assert fingerprints.revision() == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "a").write_text("three")
    assert fingerprints.revision() == (git(tmp_path, "rev-parse", "HEAD"), True)
