#!/usr/bin/env python3
"""What a simulated token costs, in instructions and events, and what the simulator says of it: for changes that make it cheaper.

    python tools/sim_cost.py results --write before.json      tokens/s, P99, tokens, event hash and events of the runs below
    python tools/sim_cost.py results --against before.json    the same beside what was written, in per cent
    python tools/sim_cost.py instructions offload_47b         callgrind: a run of 36 tokens less one of 4, by 32

Needs the extension module (PYTHONPATH=python) and, for instructions, valgrind. Plans of PowerInfer-2 are made once in --plans, so that
both sides run the same one.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from vitro.base import checkout, inputs, process
from vitro.reproducing import paper_map
from vitro.reproducing.plans import Plans
from vitro.running import experiments

_BENCHMARKS = ("offload_47b", "offload_7b", "decode_7b")
_PI2 = "pi2_47b"  # the run of the reproduction that `vitro bench sim` has, too
_POLICIES = {  # of the validation suite: what reads flash, on the device that was measured
    "cluster 50": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%"},
    "cluster 25": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "25%"},
    "matrix 50": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%", "engine.clusters.pipeline": "matrix"},
    "none 50": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%", "engine.clusters.pipeline": "none"},
    "llmflash 50": {"engine.policy": "llmflash", "memory.ffn_in_dram": "50%"},
    "powerinfer 50": {"engine.policy": "powerinfer", "memory.ffn_in_dram": "50%"},
    "mmap 50": {"engine.policy": "mmap", "memory.ffn_in_dram": "50%"},
}
_MODEL = {"format": "f16", "shape": {"family": "llama", "name": "200m", "layers": 12, "width": 1024, "heads": 16, "kv_heads": 16,
                                     "ffn": 2816, "vocab": 32000, "context": 512, "norm_eps": 1e-5, "activation": "relu",
                                     "rope_base": 10000}}


def runs(plans):
    """-> {name: (experiment file, overrides)} of the benchmarks and of the paper's run."""
    root = checkout.root() / "experiments"
    found = {name: (root / "benchmarks" / f"{name}.yaml", {}) for name in _BENCHMARKS}
    mapped, words = paper_map.load("pi2"), "pi2 mixtral off50"
    overrides = mapped.overrides(words)
    given = experiments.compose(mapped.experiment, overrides=overrides).given
    plan = Path(plans) / f"{_PI2}.plan.yaml"
    if not plan.exists():
        made = Plans()  # its folder goes with it
        plan.write_text(Path(made.path_for(given, mapped.plan(words))).read_text())
    found[_PI2] = (mapped.experiment, overrides | {"engine.plan": str(plan)})
    return found


def results(plans, changes):
    """-> {name: metrics}."""
    found = {}
    for name, (source, overrides) in runs(plans).items():
        found[name] = _metrics(source, overrides | changes)
    with tempfile.TemporaryDirectory() as folder:
        device = checkout.root() / "experiments" / "validation" / "recorded" / "device.yaml"
        source = Path(folder) / "validation.yaml"
        base = {"experiment": "validation", "machine": "sim", "device": str(device), "model": _MODEL,
                "engine": {"numerics": False, "threads": 2}, "workload": {"prompt_tokens": 16, "output_tokens": 24, "stop_at_eos": False,
                                                                        "seed": 1}}
        source.write_text(json.dumps(base))
        for name, overrides in _POLICIES.items():
            found[name] = _metrics(source, overrides | changes)
    return found


def _metrics(source, overrides):
    run = process.call("bench_run", str(source), source.stem, inputs.as_overrides(overrides))["result"]
    return {"tokens_per_s": run["metrics"]["decode_tokens_per_s"], "p99_ms": run["metrics"]["token_latency_ms"]["p99"],
            "events": run["counts"]["events"], "posts": run["counts"]["posts"], "event_hash": run["event_hash"]}


def instructions(name, plans, changes, few, many, keep):
    source, overrides = runs(plans)[name]
    counts = {}
    for tokens in (few, many):
        request = {"call": ["bench_run", str(source), source.stem,
                            inputs.as_overrides(overrides | changes | {"workload.output_tokens": tokens})],
                   "attached": [], "progress": False}
        with tempfile.TemporaryDirectory() as folder:
            out = Path(keep) / f"{name}.{tokens}.callgrind" if keep else Path(folder) / "callgrind"
            command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable, "-m", "vitro.base.worker"]
            done = subprocess.run(command, input=json.dumps(request).encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                  env=os.environ | {"PYTHONHASHSEED": "0", "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1",
                                                    "GLIBC_TUNABLES": process.MALLOC_TUNABLES})
        collected = re.search(r"Collected : (\d+)", done.stderr.decode())
        if done.returncode != 0 or not collected or "error" in json.loads(done.stdout):
            sys.exit(f"{name}: the run under callgrind failed:\n{done.stderr.decode()[-2000:]}{done.stdout.decode()[:500]}")
        counts[tokens] = int(collected.group(1))
    return (counts[many] - counts[few]) / (many - few)


def _table(now, before):
    print(f"| {'run':20} | tokens/s | P99 ms | events | tokens/s before | change | P99 before | change | events before |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, row in now.items():
        old = before.get(name)
        cells = [row["tokens_per_s"], row["p99_ms"], row["events"]]
        text = [f"{cells[0]:.3f}", f"{cells[1]:.3f}", f"{cells[2]}"]
        if old:
            text += [f"{old['tokens_per_s']:.3f}", f"{100 * (cells[0] / old['tokens_per_s'] - 1):+.2f} %", f"{old['p99_ms']:.3f}",
                     f"{100 * (cells[1] / old['p99_ms'] - 1):+.2f} %", f"{old['events']}"
                     + (" (same hash)" if old["event_hash"] == row["event_hash"] else "")]
        print(f"| {name} | " + " | ".join(text) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("results", "instructions"))
    parser.add_argument("name", nargs="?", choices=(*_BENCHMARKS, _PI2), default="offload_47b")
    parser.add_argument("--write")
    parser.add_argument("--against")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--plans", default=str(Path(tempfile.gettempdir()) / "vitro-sim-cost-plans"))
    parser.add_argument("--tokens", nargs=2, type=int, default=(4, 36), metavar=("FEW", "MANY"))
    parser.add_argument("--keep", help="folder for callgrind's files")
    given = parser.parse_args()
    Path(given.plans).mkdir(parents=True, exist_ok=True)
    changes = dict(item.split("=", 1) for item in given.set)
    if given.what == "instructions":
        each = instructions(given.name, given.plans, changes, *given.tokens, given.keep)
        return print(f"{given.name}: {each / 1e6:.2f} M instructions per token, {given.tokens[0] + 1} to {given.tokens[1]}")
    now = results(given.plans, changes)
    if given.write:
        Path(given.write).write_text(json.dumps(now, indent=1) + "\n")
    before = json.loads(Path(given.against).read_text()) if given.against else {}
    _table(now, before)


if __name__ == "__main__":
    main()
