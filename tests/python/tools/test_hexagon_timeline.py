"""tools/hexagon/timeline.py: the worker's stages by its own log, with the NPU model's durations, beside the simulated NPU."""
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "hexagon"))
import timeline as script  # noqa: E402

from vitro import plot  # noqa: E402
from vitro.plot.stages import sim_spans, worker_spans  # noqa: E402

DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"

needs_tool = pytest.mark.skipif(not script.TOOL.exists() or not shutil.which("qemu-hexagon"), reason="needs qemu-hexagon and a build")


def by_hand(buffers, log):
    """Three steps: transfers of 4 s, vectors of 2, multiplications of 3, results of 1."""
    return {"plan": {"groups": 3, "buffers": buffers},
            "seconds": {"full": [4, 2, 3, 1], "last": [4, 2, 3, 1], "activations": 1, "prepare": 0},
            "worker": [dict(zip(("mark", "stage", "thread", "step"), event)) for event in log]}


def log_of(order):
    threads = {"vector": "hvx0", "matrix": "matrix"}
    return [("begin", stage, threads.get(stage, "dma"), step) for stage, step in order]


TWO = [("activations", 0), ("in", 0), ("in", 1), ("vector", 0), ("in", 2), ("matrix", 0), ("vector", 1), ("out", 0), ("matrix", 1),
       ("vector", 2), ("out", 1), ("matrix", 2), ("out", 2)]
ONE = [("activations", 0), ("in", 0), ("vector", 0), ("in", 1), ("matrix", 0), ("out", 0), ("vector", 1), ("in", 2), ("matrix", 1),
       ("out", 1), ("vector", 2), ("matrix", 2), ("out", 2)]


def test_durations_follow_the_order_of_the_log():
    spans = {(span["stage"], span["step"]): (span["begin"], span["end"]) for span in worker_spans(by_hand(2, log_of(TWO)))}
    assert spans["in", 0] == (1, 5) and spans["in", 1] == (5, 9)  # while step 0 is made ready
    assert spans["vector", 0] == (5, 7) and spans["matrix", 0] == (7, 10)
    assert spans["in", 2] == (9, 13) and spans["out", 0] == (13, 14)  # the results go behind the weights of a later step
    spans = {(span["stage"], span["step"]): (span["begin"], span["end"]) for span in worker_spans(by_hand(1, log_of(ONE)))}
    assert spans["in", 1] == (7, 11)  # its buffer is empty when step 0 is ready
    assert spans["vector", 1] == (11, 13) and spans["in", 2] == (13, 17)


@needs_tool
@pytest.mark.all
@pytest.mark.parametrize("form, columns", [("f16", 2048), ("q8_0", 4096)])
def test_worker_and_model_take_as_long_with_the_same_plan(tmp_path, form, columns):
    took = {}
    for buffers in (2, 1, 0):
        found = script.timeline(script.TOOL, DEVICE, form, 4, columns, 512, buffers)
        assert found["plan"]["buffers"] == buffers and found["plan"]["groups"] > 4
        worker, sim = worker_spans(found), sim_spans(found)
        for stage in ("in", "vector", "matrix"):  # every step once, or once for each thread
            share = found["plan"]["threads"] if stage == "vector" else 1
            assert sum(s["stage"] == stage for s in worker) == share * found["plan"]["groups"]
            assert sum(s["stage"] == stage for s in sim) == found["plan"]["groups"]
        took[buffers] = max(span["end"] for span in worker)
        # The model has the overhead of a call, and the DRAM's own time.
        assert took[buffers] == pytest.approx(found["sim_seconds"], rel=0.15)
    assert took[2] < 0.8 * took[1] and took[1] < took[0]
    plot.stages({"one buffer": found}).savefig(tmp_path / "stages.png")
    assert (tmp_path / "stages.png").stat().st_size > 10000


@needs_tool
@pytest.mark.all
def test_it_says_what_it_does_not_take():
    def said(*arguments):
        answer = subprocess.run([script.TOOL, *arguments], capture_output=True, text=True)
        assert answer.returncode == 2 and answer.stdout == ""
        return answer.stderr
    assert "expected f16, q8_0 or q4_0" in said(DEVICE, "q6_k", "4", "64", "64")
    assert "columns: 33 (expected a multiple of 32" in said(DEVICE, "f16", "4", "33", "64")
    assert "rows: many" in said(DEVICE, "f16", "many", "64", "64")
    assert "expected 0, 1 or 2" in said(DEVICE, "f16", "4", "64", "64", "3")
    assert "expected DEVICE FORMAT" in said(DEVICE)
