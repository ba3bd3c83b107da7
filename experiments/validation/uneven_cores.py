"""Decoding and prompts on two cores of this computer of which one is slow: with one thread, with equal shares, and with shares by rates.

    .venv/bin/python experiments/validation/uneven_cores.py [--rounds 15] [--slow burner|quota] [--json]

A made Llama of 215 M parameters in q4_0, all ways by turns. `burner`: a process that never sleeps on the second core. `quota`: half of the
time of the second core at most, by a cgroup around all threads on it; needs root and the cpu controller of cgroup v1.
docs/design/core-balance.md has the result.
"""
import argparse
import contextlib
import json
import os
import statistics
import tempfile
import threading
from pathlib import Path

from vitro.commands import bench_threads
from vitro.model import files
from vitro.model.dense import BENCHMARK, make_dense

PERIOD_US = 10_000


@contextlib.contextmanager
def quota(cpu):
    """Moves threads of this process's children that may run on `cpu` alone into a cgroup with half of its time."""
    folder = Path("/sys/fs/cgroup/cpu") / f"vitro-uneven-{os.getpid()}"
    folder.mkdir()
    (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (folder / "cpu.cfs_quota_us").write_text(str(PERIOD_US // 2))
    end = threading.Event()

    def move():
        moved = set()
        while not end.wait(0.02):
            for task in _tasks_of_children() - moved:
                with contextlib.suppress(OSError):
                    if os.sched_getaffinity(task) == {cpu}:
                        (folder / "tasks").write_text(str(task))
                        moved.add(task)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield
    finally:
        end.set()
        mover.join()
        folder.rmdir()


def _tasks_of_children():
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((process / "stat").read_text().rsplit(")", 1)[1].split()[1]) == os.getpid():
                found |= {int(task.name) for task in (process / "task").iterdir()}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--slow", choices=("burner", "quota"), default="burner")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made, path = Path(folder) / "made.f16.gguf", Path(folder) / "made.q4_0.gguf"
        make_dense(BENCHMARK, made)
        files.quantize(made, path, "q4_0")
        slow = {"burner": bench_threads.burner, "quota": quota}[options.slow]
        found = bench_threads.uneven(path, options.rounds, slow=slow)
    table = {phase: {way: found[phase, way] for way in bench_threads.WAYS} for phase in bench_threads.PHASES}
    if options.json:
        print(json.dumps({"slow": options.slow, "tokens_per_s": table}))
        return
    for phase, ways in table.items():
        for way, speeds in ways.items():
            low, middle, high = statistics.quantiles([a / b for a, b in zip(speeds, ways["one"], strict=True)], n=4)
            print(f"{phase:8} {way:6} {statistics.median(speeds):8.1f} tokens/s, over one thread {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
