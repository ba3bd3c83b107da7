"""Whether points on a Dask cluster of this machine cost more than on its own executor: docs/design/executor.md, "What a point costs".

    PYTHONPATH=python .venv/bin/python experiments/validation/executors_speed.py [--rounds 6] [--points 60] [--workers 2]

Each round sweeps the same points of experiments/benchmarks/offload_7b.yaml (32 tokens) on `local` and on `dask`, which goes first by turns;
each sweep is a command of its own with a store of its own. CPU seconds are of the command and all its children, so other work on the
machine matters less to them than to the clock. A sweep of FEW points beside each tells what a command costs without points. 1000 points
are extrapolated from both; what the clock would show is the CPU time over the workers, if nothing else ran and no core ever waited.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEW = 4


@dataclass(frozen=True)
class Cost:
    """Of one sweep, in seconds."""

    wall: float
    cpu: float


def sweep(on: str, points: int, workers: int) -> Cost:
    """Runs one as a command. Raises CalledProcessError where a point fails."""
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.yaml"
        study.write_text(f"include: {ROOT}/experiments/benchmarks/offload_7b.yaml\n"
                         f"sweep: {{workload.output_tokens: [32], workload.seed: {list(range(1, points + 1))}}}\n")
        command = [sys.executable, "-m", "vitro", "sweep", str(study), "--out", f"{folder}/o", "--on", on, "--workers", str(workers)]
        began = time.perf_counter()
        with open(Path(folder) / "said", "w+b") as said:
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            wall = time.perf_counter() - began
            said.seek(0)
            if code := os.waitstatus_to_exitcode(status):
                raise subprocess.CalledProcessError(code, command, stderr=said.read())
        return Cost(wall, used.ru_utime + used.ru_stime)


def per_point(pair: tuple[Cost, Cost], points: int, name: str) -> float:
    return (getattr(pair[1], name) - getattr(pair[0], name)) / (points - FEW)


def of_thousand(pair: tuple[Cost, Cost], points: int, name: str) -> float:
    each = per_point(pair, points, name)
    return getattr(pair[0], name) + (1000 - FEW) * each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 6), ("points", 60), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    found: dict[str, list[tuple[Cost, Cost]]] = {"local": [], "dask": []}
    for turn in range(asked.rounds):
        for on in ("local", "dask") if turn % 2 == 0 else ("dask", "local"):
            pair = sweep(on, FEW, asked.workers), sweep(on, asked.points, asked.workers)
            found[on].append(pair)
            print(f"round {turn}, {on}: {pair[1].wall:.1f} s, CPU {pair[1].cpu:.1f} s; of {FEW} points {pair[0].wall:.1f} s, CPU "
                  f"{pair[0].cpu:.1f} s; load {os.getloadavg()[0]:.1f}", flush=True)
    for on, pairs in found.items():
        cpu, wall = (statistics.median(per_point(pair, asked.points, name) for pair in pairs) for name in ("cpu", "wall"))
        print(f"{on}: medians: CPU {cpu:.3f} s a point, {wall:.3f} s of the clock; 1000 points: "
              f"{statistics.median(of_thousand(pair, asked.points, 'wall') for pair in pairs) / 60:.1f} min here, "
              f"{statistics.median(of_thousand(pair, asked.points, 'cpu') for pair in pairs) / asked.workers / 60:.1f} min if "
              f"{asked.workers} cores did nothing else")
    for what, cost in (("one sweep", lambda pair, name: getattr(pair[1], name)),
                       ("1000 points", lambda pair, name: of_thousand(pair, asked.points, name))):
        for name in ("wall", "cpu"):
            ratios = sorted(cost(dask, name) / cost(local, name) for local, dask in zip(found["local"], found["dask"]))
            print(f"dask / local, {what}, {name}: median {statistics.median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}")


if __name__ == "__main__":
    main()
