"""Reports are one self-contained file each; the demo checks what it claims."""
import re

import pytest
import vitro
from balanced_html import Balanced
from conftest import EXPERIMENT
from vitro.commands import demo
from vitro.report import page as report
from vitro.report.run import write_run
from vitro.running.result import Result

def check(path):
    text = path.read_text()
    page = Balanced()
    page.feed(text)
    assert not page.open
    assert not page.external
    assert len(page.ids) == len(set(page.ids))
    for target in re.findall(r"url\(#([^)]+)\)", text):
        assert target in page.ids
    return text


def test_run_report(fake, tmp_path):
    fake("run", fake.write(), "--out", "o", "--set", "memory.budget=5 MiB")
    text = check(tmp_path / "o/report.html")
    assert text.count("<svg") == 4
    assert "matmul" in text and "kv" in text
    assert "ufs.command_overhead" in text and "there was a little girl" in text


def test_texts_are_escaped(fake, tmp_path):
    fake("run", fake.write(), "--out", "o", "--set", "workload.prompt=<script>alert(1)</script>")
    assert "<script>" not in check(tmp_path / "o/report.html")


def test_equal_results_give_equal_pages(fake, tmp_path):
    pages = []
    for name in ("a", "b"):
        result = vitro.run(EXPERIMENT, out=tmp_path / name)
        pages.append(write_run(Result(result.data, result.out), tmp_path / name).read_bytes())
    assert pages[0] == pages[1]


def test_demo(fake, tmp_path):
    answer = fake("demo", "--out", "o")
    assert answer.code == 0
    assert "the same 48 tokens in all 6 runs" in answer.out
    assert str("o/report.html") in answer.out
    text = check(tmp_path / "o/report.html")
    assert "mmap, 6 MiB" in text and text.count("<svg") >= 6
    assert (tmp_path / "o/sim-mmap-6-mib/trace.json").exists()


def results(**changes):
    def make(machine):
        data = {"tokens": [1, 2], "event_hash": "h", "machine": machine, "metrics": {"peak_memory_bytes": 100},
                "experiment_resolved": {"memory": {"budget": "1 kB"}}}
        return data
    table = {("dense", machine): make(machine) for machine in ("host", "sim")}
    table["dense", "sim"] |= changes
    return {key: Result(data) for key, data in table.items()}


@pytest.mark.parametrize("changes, again, ok", [
    ({}, "h", True),
    ({"tokens": [1, 3]}, "h", False),
    ({"tokens": []}, "h", False),
    ({}, "other", False),
    ({"metrics": {"peak_memory_bytes": 1001}}, "h", False),
])
def test_demo_notices_what_breaks_its_claims(changes, again, ok):
    checks = demo.judge(results(**changes), {"event_hash": again}, "dense")
    assert all(item["ok"] for item in checks) == ok
