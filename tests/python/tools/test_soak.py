"""tests/soak.py: a process that grows is noticed, one that does not grow is not, and all parts count."""
import json
import sys
import time

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import building  # noqa: E402
import soak  # noqa: E402

PARENT = """import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; held = bytearray(40 << 20); print('held', flush=True); time.sleep(60)"])
time.sleep(60)"""
ONCE = "[==========] 216 tests from 30 test suites ran. (9 ms total)\n"  # what GoogleTest prints with --gtest_brief


@pytest.mark.parametrize("samples, wrong", [([40.0] * 100, False), ([40.0 + i for i in range(100)], True),
                                            ([9.0] * 15 + [40.0] * 85, False), ([40.0] * 3, False)])
def test_a_process_may_not_grow_after_its_start(samples, wrong, tmp_path):
    one = soak.Watched([sys.executable, "-c", ""], tmp_path / "log")
    one.process.wait()
    one.samples = samples
    found = soak.outcome(one, None, repetitions=3)
    assert ("resident memory went from" in (found["failed"] or "")) == (found["failed"] is not None) == wrong
    assert soak.outcome(one, None, may_grow=True)["failed"] is None and found["repetitions"] == 3


def test_memory_of_children_counts_and_they_end_with_it(tmp_path):
    one = soak.Watched([sys.executable, "-c", PARENT], tmp_path / "log")
    while "held" not in one.log.read_text():
        assert one.process.poll() is None
    one.sample()
    one.end()
    assert one.samples[0] > 40
    until = time.monotonic() + 10
    while one.samples and time.monotonic() < until:  # a child ends a moment after it was killed
        one.samples = []
        one.sample()
    assert not one.samples, "something of its session is left"


@pytest.mark.parametrize("text, ended, silent, wrong", [
    (ONCE, None, 1, None), (ONCE, None, 10**4, "it hangs"), ("[  FAILED  ] a.b\n", None, 1, "a.b"),
    ("ThreadSanitizer: data race\n", None, 1, "data race"), ("done\n", 0, 1, "done")])
def test_tests_that_fail_hang_or_end_are_told(text, ended, silent, wrong, tmp_path):
    one = soak.Watched([sys.executable, "-c", f"print({text!r})"], tmp_path / "log")
    one.process.wait()
    found = soak.judged(one, ended, silent)
    assert (found["failed"] is None) == (wrong is None) and (wrong or "") in (found["failed"] or "")
    assert found["repetitions"] == text.count(ONCE)


def test_a_process_that_ends_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "SAMPLE_S", 0.02)
    one = soak.Watched([sys.executable, "-c", "print('last words')"], tmp_path / "log")
    soak.watch([one], 60)
    assert one.process.poll() == 0 and soak.said(one) == "last words"


def test_each_part_counts_and_what_failed_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "RESULTS", tmp_path)
    for name in ("torture", "fuzz", "host", "sweep"):
        part = lambda seconds, name=name: {name: {"failed": "it hung" if name == "host" else None, "hours": seconds / 3600}}
        part.__name__ = name
        monkeypatch.setattr(soak, name, part)
    tally = building.Tally()
    soak.soak(0.5, tally)
    assert (tally.passed, tally.failures) == (3, [("soak: host", "it hung")])
    assert json.loads((tmp_path / "soak.json").read_text())["sweep"] == {"sweep": {"failed": None, "hours": 0.5}}
