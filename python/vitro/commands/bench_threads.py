"""Decoding on one core and on two, beside how much more two cores read from memory than one; and on two cores that are not alike."""
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ..base import process
from ..model import files
from ..model.dense import BENCHMARK, make_dense
from ..running import experiments

_SCHEMES = ("q4_0", "q4_k", "q8_0")
_SMOKE = replace(BENCHMARK, layers=1, width=256, ffn=512, heads=4, kv_heads=2, vocab=512)


def rows(row, smoke, progress=None):
    """-> rows of tokens/s for each format and of the ratio of two threads over one; none on a machine of one core. By turns: both
    numbers of threads, then the limit, and again. `row(name, value, unit, limit)` makes one."""
    rounds, tokens, found = (1, 8, []) if smoke else (5, 64, [])
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.f16.gguf"
        make_dense(_SMOKE if smoke else BENCHMARK, made)
        for scheme in _SCHEMES:
            path = Path(folder) / f"{scheme}.gguf"
            files.quantize(made, path, scheme)
            speeds, reads = {1: [], 2: []}, {1: [], 2: []}
            for _ in range(rounds):
                for threads in (1, 2):
                    speeds[threads].append(_speed(path, threads, tokens, progress))
                for threads in (1, 2):
                    reads[threads].append(_reads(threads, smoke))
            ratio, limit = (statistics.median(x[2]) / statistics.median(x[1]) for x in (speeds, reads))
            found += [row(f"engine.decode_{scheme}_threads_{n}", statistics.median(speeds[n]), "tokens/s", None) for n in (1, 2)]
            found.append(row(f"decode {scheme} 2 threads over 1", ratio, "x", limit))
        return found + _beside_a_burner(row, Path(folder) / "q4_0.gguf", smoke, progress)


def _beside_a_burner(row, path, smoke, progress):
    """The second core is shared with a process that never sleeps. Limit: a core and half a core, over two halves."""
    rounds, tokens = (1, 8) if smoke else (5, 64)
    even, rates = [], []
    with _burner(sorted(os.sched_getaffinity(0))[1]):
        for _ in range(rounds):
            even.append(_speed(path, 2, tokens, progress))
            rates.append(_speed(path, 2, tokens, progress, {"engine.placement.balance": "rates"}))
    return [row("engine.decode_uneven_cores_even", statistics.median(even), "tokens/s", None),
            row("engine.decode_uneven_cores_rates", statistics.median(rates), "tokens/s", None),
            row("engine.decode_uneven_cores_rates_over_even", statistics.median(rates) / statistics.median(even), "x", 1.5)]


@contextlib.contextmanager
def _burner(cpu):
    with subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]) as process_:
        try:
            yield
        finally:
            process_.kill()


def _speed(model, threads, tokens, progress, overrides=None):
    with tempfile.TemporaryDirectory() as folder:
        experiment = {"experiment": "threads", "machine": "host", "model": {"gguf": str(model)},
                      "engine": {"policy": "dense", "activations": "int8", "threads": threads},
                      "workload": {"prompt": "Once upon a time", "output_tokens": tokens, "stop_at_eos": False}}
        return experiments.run(experiment, overrides=overrides, out=folder, progress=progress).metric("decode_tokens_per_s")


def _reads(threads, smoke):
    answer = process.call("probe", "reads", json.dumps({"bytes": "16 MiB" if smoke else "256 MiB", "threads": threads, "repetitions": 3}))
    return statistics.median(answer["samples"])
