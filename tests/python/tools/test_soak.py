"""tests/soak.py: a process that grows is noticed, one that does not grow is not, and all parts count."""
import json
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import building  # noqa: E402
import soak  # noqa: E402

STEADY = "import time\nheld = bytearray(40 << 20)\nwhile True: time.sleep(0.01)"
GROWS = "import time\nheld = []\nwhile True: held.append(b'x' * (2 << 20)); time.sleep(0.03)"


@pytest.mark.parametrize("program, wrong", [(STEADY, False), (GROWS, True)])
def test_a_process_may_not_grow(program, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "SAMPLE_S", 0.02)
    one = soak.Watched([sys.executable, "-c", program], tmp_path / "log")
    soak.watch([one], 2)
    assert one.process.poll() is None
    one.end()
    found = soak.outcome(one, None, repetitions=3)
    assert (found["failed"] is not None) == wrong and found["repetitions"] == 3
    assert ("resident memory went from" in (found["failed"] or "")) == wrong


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
