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
    """The second core is shared with a process that never sleeps. Limit: a core and half a core, over one, or over two halves."""
    found = uneven(path, 1 if smoke else 9, smoke, progress)
    rows_ = [row(f"engine.{phase}_uneven_cores_{way}", statistics.median(values), "tokens/s", None)
             for (phase, way), values in found.items()]
    for phase in PHASES:
        for over in ("even", "one"):
            ratios = [a / b for a, b in zip(found[phase, "rates"], found[phase, over], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            rows_ += [row(f"engine.{phase}_uneven_cores_rates_over_{over}{what}", value, "x", limit)
                      for what, value, limit in (("", middle, 1.5), (".low_quartile", low, None), (".high_quartile", high, None))]
    return rows_


PHASES = ("decode", "prompt")
WAYS = {"one": (1, {}), "even": (2, {}), "rates": (2, {"engine.placement.balance": "rates"})}  # threads, overrides


def uneven(path, rounds, smoke=False, progress=None, slow=None):
    """-> {(phase, way): [tokens/s of each round]}, all ways by turns, while the second core is slow. `slow(cpu)`: a context that makes it
    so; a process that never sleeps by default. Prompts are of 512 tokens, of one chunk after the other."""
    found = {(phase, way): [] for phase in PHASES for way in WAYS}
    with (slow or burner)(sorted(os.sched_getaffinity(0))[1]):
        for _ in range(rounds):
            for way, (threads, overrides) in WAYS.items():
                result = _run(path, threads, 8 if smoke else 64, progress, overrides, prompt=9 if smoke else 512)
                found["decode", way].append(result.metric("decode_tokens_per_s"))
                found["prompt", way].append(result.metric("prefill_tokens_per_s"))
    return found


@contextlib.contextmanager
def burner(cpu):
    """A process that never sleeps on that CPU. It ends with this one, however this one ends."""
    loop = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile os.getppid() == {os.getpid()}: pass"
    with subprocess.Popen([sys.executable, "-c", loop]) as process_:
        try:
            yield
        finally:
            process_.kill()


def _speed(model, threads, tokens, progress):
    return _run(model, threads, tokens, progress).metric("decode_tokens_per_s")


def _run(model, threads, tokens, progress, overrides=None, prompt=None):
    workload = {"prompt": "Once upon a time"} if prompt is None else {"prompt_tokens": prompt}
    with tempfile.TemporaryDirectory() as folder:
        experiment = {"experiment": "threads", "machine": "host", "model": {"gguf": str(model)},
                      "engine": {"policy": "dense", "activations": "int8", "threads": threads},
                      "workload": workload | {"output_tokens": tokens, "stop_at_eos": False}}
        return experiments.run(experiment, overrides=overrides, out=folder, progress=progress)


def _reads(threads, smoke):
    answer = process.call("probe", "reads", json.dumps({"bytes": "16 MiB" if smoke else "256 MiB", "threads": threads, "repetitions": 3}))
    return statistics.median(answer["samples"])
