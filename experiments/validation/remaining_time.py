"""How good the time is that a sweep says remains: the table of docs/design/executor.md, "Remaining time".

    PYTHONPATH=python .venv/bin/python experiments/validation/remaining_time.py [--workers 2]

Sweeps of the benchmark with neurons in flash, whose points take unequal time. "as it ran" compares the estimate after a tenth, a quarter
and half of the points with what then was left by the clock, with all that other work on the machine did meanwhile. "replayed" has the same
points, each as long as it took, on as many workers on which nothing else runs: in the order of execution, and in that of the grid.
"""
import argparse
import heapq
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vitro
from vitro.base.remaining import Remaining, spread

ROOT = Path(__file__).parents[2]
SHARES = (0.1, 0.25, 0.5)
TOKENS = [4, 8, 16, 32, 64]
IN_DRAM = ["20%", "40%", "60%", "80%"]
SWEEPS: dict[str, Any] = {
    "longer and longer answers": {"workload.output_tokens": TOKENS, "workload.seed": list(range(12))},
    "answers of all lengths by turns": {"workload.seed": list(range(12)), "workload.output_tokens": TOKENS},
    "memory, cores and lengths": {"memory.ffn_in_dram": IN_DRAM, "engine.units": [["cpu1"], ["cpu1", "cpu2", "cpu3", "cpu4"]],
                                  "workload.output_tokens": [8, 32], "workload.seed": [1, 2, 3, 4]}}


def errors(seen: Sequence[tuple[float, int]], total: int) -> list[float]:
    """seen: (seconds, points done) of each report, the first at the begin -> estimate over truth, less 1, at SHARES."""
    clock = iter([moment for moment, _ in seen])
    left = Remaining(lambda: next(clock))
    estimates = {done: (left.seconds(done, total), moment) for moment, done in seen}
    found = []
    for share in SHARES:
        estimate, moment = estimates[math.ceil(share * total)]
        assert estimate is not None
        found.append(estimate / (seen[-1][0] - moment) - 1)
    return found


def replayed(seconds: Sequence[float], workers: int) -> list[tuple[float, int]]:
    free, ends = [0.0] * workers, []
    for piece in seconds:
        ends.append(heapq.heappop(free) + piece)
        heapq.heappush(free, ends[-1])
    return [(0.0, 0), *((end, done + 1) for done, end in enumerate(sorted(ends)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    for name, sweep in SWEEPS.items():
        seen: list[tuple[float, int]] = []
        frame = vitro.sweep(ROOT / "experiments/benchmarks/offload_7b.yaml", overrides={"sweep": sweep}, workers=workers,
                            progress=lambda done, _: seen.append((time.monotonic(), done)))
        assert (frame["status"] == "ok").all(), frame["error"].dropna().iloc[0]
        seconds = list(frame["wall_s"])
        print(f"{name}: {len(seconds)} points of {min(seconds):.2f} to {max(seconds):.2f} s; error after "
              + ", ".join(f"{share:.0%}" for share in SHARES))
        for said, reports in (("as it ran", seen), ("replayed", replayed([seconds[index] for index in spread(len(seconds))], workers)),
                              ("replayed in the order of the grid", replayed(seconds, workers))):
            print(f"  {said}: " + ", ".join(f"{error:+.0%}" for error in errors(reports, len(seconds))), flush=True)


if __name__ == "__main__":
    main()
