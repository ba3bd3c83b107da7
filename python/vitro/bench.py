"""`vitro bench`: how fast this build is on this machine, each row beside what bounds it."""
import tempfile

from . import api, catalog, process
from .errors import ConfigError
from .trace import covered, load_trace

KINDS = ("kernels", "engine", "sim")


def rows(kind, *, smoke=False, progress=None):
    """-> [{"name", "value", "unit", "limit", "fraction_of_limit"}]; limit is None where nothing physical bounds the row."""
    if kind not in KINDS:
        raise ConfigError(f'bench: there is no "{kind}" (expected {", ".join(KINDS)})')
    if kind == "kernels":
        return process.call("bench", kind, smoke, progress=progress)
    with tempfile.TemporaryDirectory() as folder:
        overrides = {"workload.output_tokens": 8 if smoke else 192, "workload.stop_at_eos": False}
        machine = "host" if kind == "engine" else "sim"
        source = catalog.root() / "experiments" / "quickstart.yaml"
        result = api.run(source, overrides=overrides, machine=machine, out=folder, progress=progress)
        return _engine(result, load_trace(folder)) if kind == "engine" else _sim(result)


def _engine(result, trace):
    """Decoding on host. The bound: the same operations back to back, as if handing work to a core took no time."""
    steps = len(result.tokens) - 1
    first = max(row[3] for row in trace.span_rows if row[0] == "units") - 1e3 * steps * result.metric("token_latency_ms.mean")
    busy_us = covered((max(row[3], first), row[3] + row[4]) for row in trace.span_rows
                      if row[0] == "units" and row[3] + row[4] > first)
    speed, limit = result.metric("decode_tokens_per_s"), 1e6 * steps / busy_us
    return [_row("engine.decode", speed, "tokens/s", limit)]


def _sim(result):
    return [_row("sim.tokens", len(result.tokens) / result["wall_s"], "tokens per second of waiting", None),
            _row("sim.time", result["simulated_s"] / result["wall_s"], "simulated s/s", None)]


def _row(name, value, unit, limit):
    return {"name": name, "value": value, "unit": unit, "limit": limit, "fraction_of_limit": None if limit is None else value / limit}
