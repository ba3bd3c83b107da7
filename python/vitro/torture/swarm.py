"""Cases one after the other in child processes, and what came of them by kind of fault."""
import json
import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field

from ..base import native
from . import draw

# "beside": the run failed, but for another fault; this one loses nothing.
OUTCOMES = ("recovered", "failed", "beside", "WRONG")


@dataclass
class Tally:
    cases: Counter = field(default_factory=Counter)  # by outcome
    faults: Counter = field(default_factory=Counter)  # cases by (fault, outcome)
    operations: Counter = field(default_factory=Counter)  # that a fault struck, by fault
    refusals: Counter = field(default_factory=Counter)
    wrong: list = field(default_factory=list)  # verdicts
    shadow: Counter = field(default_factory=Counter)  # what the shadow model held against what it knows

    def take(self, verdict):
        outcome = verdict["outcome"]
        self.cases[outcome] += 1
        self.shadow.update(verdict.get("shadow", {}))
        for kind, times in verdict["fired"].items():
            beside = outcome == "failed" and kind in native.call("harmless_faults")
            self.faults[kind, "beside" if beside else outcome] += 1
            self.operations[kind] += times
        if outcome == "refused":
            self.refusals[verdict["why"][:80]] += 1
        if outcome == "WRONG":
            self.wrong.append(verdict)

    def rows(self):
        """-> [(fault, cases, operations, recovered, failed, beside, WRONG)]."""
        rows = []
        for kind in native.call("fault_names"):
            counts = [self.faults[kind, outcome] for outcome in OUTCOMES]
            rows.append((kind, sum(counts), self.operations[kind], *counts))
        return rows


def run(case, folder, limit_s=60.0):
    """-> {"outcome", "why", "fired", "shadow", "case"}; the case has its faults, so that it is a replay."""
    return native.call("torture", json.dumps(case), f"seed {case['seed']}", str(folder), limit_s)


def shrunk(case, folder, limit_s=60.0):
    """-> the case with the fewest faults that is still wrong."""
    return native.call("shrink_torture", json.dumps(case), f"seed {case['seed']}", str(folder), limit_s)


def _run_seed(task):
    seed, machine, device, folder, limit_s = task
    return run(draw.case(seed, machine, device), folder, limit_s)


def run_seeds(seeds, machine, device, folder, *, jobs=1, limit_s=60.0, until_s=None, seen=None):
    """-> Tally. seen(tally): after each case; until_s: no case begins later than so many seconds from now."""
    tally, began = Tally(), time.monotonic()
    tasks = ((seed, machine, device, str(folder), limit_s) for seed in seeds)
    tasks = (task for task in tasks if until_s is None or time.monotonic() - began < until_s)
    if jobs == 1:
        for task in tasks:
            tally.take(_run_seed(task))
            if seen:
                seen(tally)
        return tally
    # A pool takes all tasks at once, so that it is given a piece at a time: the limit of time counts between two of them.
    with multiprocessing.get_context("forkserver").Pool(jobs) as pool:
        piece = []
        for task in tasks:
            piece.append(task)
            if len(piece) == 16 * jobs:
                _take(pool, piece, tally, seen)
                piece = []
        _take(pool, piece, tally, seen)
    return tally


def _take(pool, piece, tally, seen):
    for verdict in pool.imap_unordered(_run_seed, piece):
        tally.take(verdict)
        if seen:
            seen(tally)
