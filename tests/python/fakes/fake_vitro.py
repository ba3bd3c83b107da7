"""Stands in for the extension module where the command line, sweeps and reports are what is tested.

It has the module's functions and a small closed-form engine, so that answers depend on the experiment. An experiment
can ask for trouble: `fake: {crash: true}`, `fake: {fail: "message"}`, `fake: {sleep: seconds}`.
"""
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import yaml

_KEYS = {"experiment", "machine", "device", "model", "engine", "workload", "memory", "metrics", "sweep", "expect", "seed", "fake"}


class ConfigError(Exception):
    pass


class RunError(Exception):
    pass


def compose(source, name, is_path, overrides, machine):
    given, resolved = _resolved(source, name, is_path, overrides)
    if machine:
        resolved["machine"] = machine
    tree = _placed(yaml.compose(Path(source).read_text() if is_path else source), name)
    return json.dumps({"given": given, "resolved": resolved, "tree": json.dumps(tree | {"experiment": resolved})})


def _resolved(source, name, is_path, overrides):
    try:
        tree = yaml.safe_load(Path(source).read_text() if is_path else source)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}:{error.problem_mark.line + 1}: {error.problem}") from None
    for item in overrides:
        key, _, value = item.split("\n")[-1].partition("=")
        *path, leaf = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = yaml.safe_load(value)
    for key in tree:
        if key not in _KEYS:
            raise ConfigError(f'{name}:1: {key}: unknown key (expected one of {", ".join(sorted(_KEYS))})')
    if (tree.get("engine") or {}).get("policy") == "magic":
        raise ConfigError(f'{name}:1: engine.policy: "magic" (expected one of: dense, mmap)')
    return tree, {"machine": "sim", "memory": {}, "engine": {"policy": "dense"}} | tree


def parse_yaml(text, name):
    return json.dumps(yaml.safe_load(text))


def file_origins(path):
    return json.dumps(_placed(yaml.compose(Path(path).read_text()), path))


def _placed(node, name):
    """Of overrides the fake knows no place."""
    inner = {}
    if isinstance(node, yaml.MappingNode):
        inner = {key.value: _placed(value, name) for key, value in node.value}
    elif isinstance(node, yaml.SequenceNode):
        inner = {str(index): _placed(item, name) for index, item in enumerate(node.value)}
    return {"at": f"{name}:{node.start_mark.line + 1}", "of": inner}


def check_outputs(tree):
    pass


def parse_quantity(text, dimension):
    """Bytes, shares and bare numbers alone."""
    units = {"bytes": {" MiB": 2 ** 20, " KiB": 2 ** 10, " B": 1}, "ratio": {"%": 0.01}, "none": {"": 1}}.get(dimension, {})
    for unit, scale in units.items():
        try:
            if text.endswith(unit):
                return float(text.removesuffix(unit)) * scale
        except ValueError:
            continue
    return None


def run(tree, out_dir):
    experiment = json.loads(tree)["experiment"]
    trouble = experiment.get("fake") or {}
    print("a library printed this on stdout")
    if trouble.get("crash"):
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if "fail" in trouble:
        raise RunError(trouble["fail"])
    if "log" in trouble:
        with open(trouble["log"], "a") as log:
            log.write(f"{experiment.get('seed')}\n")
    time.sleep(trouble.get("sleep", 0))
    machine = experiment["machine"]
    count = experiment.get("workload", {}).get("output_tokens", 8)
    for done in range(count):
        if os.environ.get("VITRO_PROGRESS"):
            print("progress", done + 1, count, file=sys.stderr, flush=True)
    result, events, decisions = _simulate(experiment, machine, count)
    if out_dir:
        out = Path(out_dir)
        out.mkdir(parents=True, exist_ok=True)
        (out / "trace.json").write_text(json.dumps({"traceEvents": events}))
        (out / "decisions.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in decisions))
    return json.dumps(result)


def _simulate(experiment, machine, count):
    mapped = experiment["engine"].get("policy") == "mmap"
    budget = experiment["memory"].get("budget", "16 MiB")
    missing = max(0.0, 7.2 - float(str(budget).split()[0])) if mapped else 0.0  # MiB read from flash per token
    compute_us, flash_us = (900.0 if machine == "host" else 700.0), missing * 2 ** 20 / 2000.0
    events = _meta(0, "units", ["cpu0", "cpu1"]) + _meta(1, "storage", ["flash"]) + _meta(2, "memory", [])
    decisions, now = [], 0.0
    for token in range(count):
        for layer in range(4):
            weights = f"blk.{layer}.ffn_up"
            if flash_us:
                events.append(_span(1, 0, "read", now, flash_us / 4, f"{layer << 20}+{int(missing * 2 ** 18)}"))
                decisions.append({"kind": "load", "what": weights, "where": "page_cache"})
                now += flash_us / 4
            step = compute_us / 4
            events += [_counter("dram", now, 9.5), _counter("dram", now + step, 0.0)]
            for core in (0, 1):
                for i, work in enumerate(("attention", "matmul", "glu")):
                    share = (0.2, 0.6, 0.1)[i] * step
                    events.append(_span(0, core, f"{work} blk.{layer}", now + sum((0.2, 0.6)[:i]) * step, share, ""))
                decisions.append({"kind": "split", "what": weights, "where": f"cpu{core}"})
            now += step
        for region, size in (("weights", min(6.6, 6.6 - missing)), ("kv", 0.01 * (token + 1)), ("activations", 0.1)):
            events.append(_counter(region, now, int(size * 2 ** 20)))
    tokens = [(7 * i + 3) % 1024 for i in range(count)]
    token_ms = (compute_us + flash_us) / 1e3
    peak = {"weights": int(min(6.6, 6.6 - missing) * 2 ** 20), "kv": int(0.01 * count * 2 ** 20), "activations": 104857}
    result = {
        "schema": "vitro.result/1", "experiment": experiment.get("experiment", "fake"), "machine": machine,
        "seed": experiment.get("seed", 1),
        "metrics": {"decode_tokens_per_s": 1e3 / token_ms, "prefill_tokens_per_s": 3e3 / token_ms, "ttft_ms": 2 * token_ms,
                    "token_latency_ms": {"mean": token_ms, "p50": token_ms, "p90": token_ms * 1.1, "p99": token_ms * 1.2},
                    "exposed_io_share": flash_us / (compute_us + flash_us), "io_share": flash_us / (compute_us + flash_us),
                    "cpu_utilization": 0.9, "cache_hit_rate": 0.5 if mapped else None,
                    "dram_bandwidth_gb_per_s": 6.8 / token_ms, "energy_j_per_token": None if machine == "host" else 0.002,
                    "peak_power_w": None if machine == "host" else 3.1, "peak_memory_bytes": sum(peak.values()),
                    "flash_bytes_read": {"load": 6849664, "prefill": 0, "decode": int(missing * 2 ** 20) * count}},
        "tokens": tokens, "text": " there was a little girl named Lily.", "wall_s": None, "simulated_s": now / 1e6,
        "event_hash": hashlib.sha256(json.dumps([events, experiment.get("seed")]).encode()).hexdigest()[:16],
        "assumed_parameters": [] if machine == "host" else ["ufs.command_overhead = 10 us"],
        "peak_memory": peak, "notes": ["these numbers are made up"],
        "storage_path": "io_uring" if machine == "host" else "ufs", "experiment_resolved": experiment,
    }
    return result, events, decisions


def _meta(pid, group, tracks):
    named = [{"ph": "M", "name": "thread_name", "pid": pid, "tid": i, "args": {"name": name}} for i, name in enumerate(tracks)]
    return [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"vitro: {group}"}}, *named]


def _span(pid, tid, name, begin, duration, detail):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": begin, "dur": duration, "args": {"detail": detail}}


def _counter(name, at, value):
    return {"ph": "C", "name": name, "pid": 2, "ts": at, "args": {"value": value}}


def perplexity(model, text_path, overrides, ffn_inputs="", ffn_input_rows=0, context=0):
    tokens = len(Path(text_path).read_bytes())
    return json.dumps({"nll": 1.5, "perplexity": 4.4817, "tokens": tokens, "chunks": [{"nll": 1.5 * tokens, "tokens": tokens}]})


def tokenize(model, text):
    return [*text]


def quantize(src, dst, scheme, embedding, output):
    Path(dst).write_bytes(Path(src).read_bytes()[::2])


def quantize_schemes():
    return [("q8_0", "8 bits, groups of 32"), ("q4_0", "4 bits, groups of 32")]


def graph_dot(model, fuse):
    return "digraph g { a -> b }"


def list(kind, root):  # the extension module's own name
    return json.dumps([{"name": f"{kind}-one", "description": "the first one"}])


def bench(kind, smoke, root="", only=""):
    return json.dumps([{"name": f"{kind}.copy", "value": 12.5, "unit": "GB/s", "limit": 25.0, "fraction_of_limit": 0.5}])
