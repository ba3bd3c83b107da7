"""`vitro bench`: how fast this build is on this machine, each row beside what bounds it."""
import os
import resource
import tempfile

from ..base import checkout, inputs, process
from ..errors import ConfigError
from ..reproducing import paper_map
from ..reproducing.plans import Plans
from ..running import experiments
from ..trace.spans import covered
from ..trace.trace import load_trace
from . import bench_threads

KINDS = ("kernels", "engine", "sim")

_OFFLOADED = ("offload_7b", "offload_47b")  # in experiments/benchmarks: half of the FFN neurons in flash
_PLANNED = {"pi2_47b": "pi2 mixtral off50"}  # likewise, by the words of a run of the reproduction


def rows(kind, *, smoke=False, only="", progress=None):
    """-> [{"name", "value", "unit", "limit", "fraction_of_limit"}]; limit is None where nothing physical bounds the row. only: of the
    kernels, rows whose name begins with it."""
    if kind not in KINDS:
        raise ConfigError(f'bench: there is no "{kind}" (expected {", ".join(KINDS)})')
    if kind == "kernels":
        return process.call("bench", kind, smoke, "", only, progress=progress)
    if kind == "sim":
        return _sim(smoke, progress)
    with tempfile.TemporaryDirectory() as folder:
        overrides = {"workload.output_tokens": 8 if smoke else 192, "workload.stop_at_eos": False}
        source = checkout.root() / "experiments" / "quickstart.yaml"
        result = experiments.run(source, overrides=overrides, machine="host", out=folder, progress=progress)
        found = _engine(result, load_trace(folder))
    return found + (bench_threads.rows(_row, smoke, progress) if len(os.sched_getaffinity(0)) > 1 else [])


def _engine(result, trace):
    """Decoding on host. The bound: the same operations back to back, as if handing work to a core took no time."""
    steps = len(result.tokens) - 1
    first = max(row[3] for row in trace.span_rows if row[0] == "units") - 1e3 * steps * result.metric("token_latency_ms.mean")
    busy_us = covered((max(row[3], first), row[3] + row[4]) for row in trace.span_rows
                      if row[0] == "units" and row[3] + row[4] > first)
    speed, limit = result.metric("decode_tokens_per_s"), 1e6 * steps / busy_us
    return [_row("engine.decode", speed, "tokens/s", limit)]


def _sim(smoke, progress):
    """A 7B model that decodes on six simulated cores, for some tokens and for twice as many: what a token costs is the difference.

    Limits: 20 simulated seconds per second; what docs/design/sim-speed.md derives for calls per token; for memory, that of the short run.
    """
    source = checkout.root() / "experiments" / "benchmarks" / "decode_7b.yaml"
    tokens = 4 if smoke else 256
    short = process.call("bench_run", str(source), source.stem, [f"workload.output_tokens={tokens}"], progress=progress)
    before_long = _cpu_seconds()
    long = process.call("bench_run", str(source), source.stem, [f"workload.output_tokens={2 * tokens}"], progress=progress)
    cpu = _cpu_seconds() - before_long
    counts, before = long["result"]["counts"], short["result"]["counts"]
    per_token = {what: (counts[what] - before[what]) / tokens for what in counts}
    resolved = experiments.resolve(source)
    units, phases = len(resolved["engine"]["placement"]["units"]), 5 * int(resolved["model"]["shape"]["layers"]) + 2
    calls = sum(per_token[what] for what in ("runs", "launches", "reads", "writes"))
    mib = 2.0 ** -20
    return [_row("sim.decode_7b", long["result"]["simulated_s"] / cpu, "simulated s per CPU s", 20),
            _row("sim.decode_7b_wall", long["result"]["simulated_s"] / long["wall_s"], "simulated s/s", 20),
            _row("sim.events_per_token", per_token["events"], "events", None),
            _row("sim.seam_calls_per_token", calls, "calls", units * phases),
            _row("sim.posts_per_token", per_token["posts"], "posts", units * phases),
            _row("sim.memory", long["peak_rss_bytes"] * mib, "MiB", short["peak_rss_bytes"] * mib),
            *(_offloaded(name, source.parent / f"{name}.yaml", {}, smoke, progress) for name in _OFFLOADED),
            *(_with_plan(name, words, smoke, progress) for name, words in _PLANNED.items()),
            *process.call("bench", "sim", smoke, str(checkout.root()), progress=progress)]


def _with_plan(name, words, smoke, progress):
    """A run of PowerInfer-2's reproduction, with what its planner chooses."""
    mapped, plans = paper_map.load("pi2"), Plans()
    overrides = mapped.overrides(words)
    plan = plans.path_for(experiments.compose(mapped.experiment, overrides=overrides).given, mapped.plan(words))
    return _offloaded(name, mapped.experiment, overrides | {"engine.plan": plan}, smoke, progress)


def _offloaded(name, source, overrides, smoke, progress):
    """A model with half of its neurons in flash. Loading takes simulated seconds and few events: the rate is that of tokens alone,
    of a long run less a short one, which have to differ by more than loading varies. Of several runs by turns the least counts: who
    else is at work on this machine, and in its caches, only ever adds. A smoke run counts loading in: its
    tokens take less than that varies."""
    counts, rounds = ((8,), 1) if smoke else ((32, 96), 3)
    simulated, least = {}, dict.fromkeys(counts, float("inf"))
    for count in counts * rounds:
        before = _cpu_seconds()
        run = process.call("bench_run", str(source), source.stem, inputs.as_overrides(overrides | {"workload.output_tokens": count}),
                           progress=progress)
        simulated[count] = run["result"]["simulated_s"]
        least[count] = min(least[count], _cpu_seconds() - before)
    seconds, cpu = (values[counts[-1]] - (0 if smoke else values[counts[0]]) for values in (simulated, least))
    return _row(f"sim.{name}", seconds / cpu, "simulated s per CPU s", 5)


def _cpu_seconds():
    """Of all children so far: one that has a core to itself takes no longer, whoever else is at work on this machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _row(name, value, unit, limit):
    return {"name": name, "value": value, "unit": unit, "limit": limit, "fraction_of_limit": None if limit is None else value / limit}
