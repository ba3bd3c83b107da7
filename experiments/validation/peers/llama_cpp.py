#!/usr/bin/env python3
"""Decoding and prompts beside llama.cpp on this computer, by turns, from the same files; and beside its mmap with too little memory.

    cmake -S CHECKOUT -B BUILD -DCMAKE_BUILD_TYPE=Release && cmake --build BUILD --target llama-bench    # outside this tree
    python experiments/validation/peers/llama_cpp.py speed BUILD/bin/llama-bench --version b1234        # all weights in DRAM
    python experiments/validation/peers/llama_cpp.py large BUILD/bin/llama-bench --version b1234        # the same of a larger model
    python experiments/validation/peers/llama_cpp.py flash BUILD/bin/llama-bench --version b1234        # two thirds of it; needs root
    python experiments/validation/peers/llama_cpp.py reads BUILD/bin/llama-bench --version b1234        # what it reads then; needs root

Each writes its part of experiments/validation/recorded/peers-llama-cpp.yaml and prints its table (docs/results/llama-cpp.md). `flash` runs
both sides in a memory cgroup of the same limit, with the read-ahead of phones, on the disk of the temporary folder. `reads` runs llama.cpp
alone there, and asks the kernel what it read and how many faults waited for it.
"""
import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import yaml

HERE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(HERE / "python"), str(HERE / "experiments" / "validation")]
from mmap_audit import READ_AHEAD_KB, Cgroup, read_ahead  # noqa: E402
from vitro.model.dense import BENCHMARK, make_dense  # noqa: E402

RECORD = HERE / "experiments" / "validation" / "recorded" / "peers-llama-cpp.yaml"
PROMPT, OUTPUT = 128, 64
FORMATS = ("q4_0", "q4_k", "q8_0")
LARGE = replace(BENCHMARK, layers=16, width=2048, ffn=11264, heads=16, kv_heads=4, vocab=1024)  # shapes of `make-model --preset 1.3b`
LIMIT = 1600 << 20   # of the cgroup: half of the FFNs of the model of 1.3 B parameters, everything else of it, and room for a process
PROCESS = 200 << 20  # of that: what the process of an engine takes beside its weights


def vitro(*words, procs=None):
    run = subprocess.run([sys.executable, "-m", "vitro", *map(str, words)], capture_output=True, text=True, preexec_fn=entering(procs),
                         env=os.environ | {"PYTHONPATH": str(HERE / "python")})
    if run.returncode:
        sys.exit(f"vitro {' '.join(map(str, words))} failed:\n{run.stderr[-2000:]}")
    return run.stdout


def entering(procs):
    """What the new process does first: it enters the cgroup."""
    return None if procs is None else lambda: procs.write_text(str(os.getpid()))


def ours(folder, model, engine, memory, workload, procs=None):
    experiment = folder / "experiment.yaml"
    experiment.write_text(json.dumps({"experiment": "peers", "machine": "host", "model": {"gguf": str(model)}, "engine": engine,
                                      "memory": memory, "workload": workload | {"stop_at_eos": False}}))
    return json.loads(vitro("run", experiment, "--json", procs=procs))["metrics"]


def theirs(bench, model, threads, *options, procs=None):
    """-> tokens/s. llama-bench first makes one token or prompt that does not count, as ours has read all weights once by then."""
    words = [bench, "-m", model, "-t", threads, "-r", 1, "-o", "json", *options]
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, preexec_fn=entering(procs))
    if run.returncode:
        sys.exit(f"llama-bench failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout)[0]["avg_ts"]


def speed(bench, folder, rounds, shape=BENCHMARK, formats=FORMATS):
    """-> {(format, threads, phase): {side: [tokens/s]}}"""
    make_dense(shape, folder / "made.gguf")
    found = {}
    for format_ in formats:
        vitro("quantize", folder / "made.gguf", folder / f"{format_}.gguf", "--scheme", format_)
    for turn in range(rounds):
        for format_ in formats:
            model = folder / f"{format_}.gguf"
            for threads in (1, 2):
                for side in ("vitro", "llama.cpp")[::1 if turn % 2 else -1]:
                    if side == "vitro":
                        metrics = ours(folder, model, {"policy": "dense", "activations": "int8", "threads": threads}, {},
                                       {"prompt_tokens": PROMPT, "output_tokens": OUTPUT})
                        rates = metrics["decode_tokens_per_s"], metrics["prefill_tokens_per_s"]
                    else:
                        rates = (theirs(bench, model, threads, "-p", 0, "-n", OUTPUT, "-d", PROMPT),
                                 theirs(bench, model, threads, "-p", PROMPT, "-n", 0))
                    for phase, rate in zip(("decoding", "prompt"), rates):
                        found.setdefault((format_, threads, phase), {}).setdefault(side, []).append(round(rate, 2))
    return found


def large(bench, folder, rounds):
    return speed(bench, folder, rounds, LARGE, ("q4_0", "q4_k"))


POLICIES = {  # name -> (engine, tokens)
    "neuron_cluster": ({"policy": "neuron_cluster"}, 24),
    "llmflash, many reads in flight": ({"policy": "llmflash"}, 24),
    "llmflash, one read in flight, window of 5": ({"policy": "llmflash",
                                                   "clusters": {"io_depth": 1, "eviction": "window", "window": 5}}, 12),
    "vitro's mmap": ({"policy": "mmap"}, 4),
}


@contextlib.contextmanager
def cold(*paths):
    """None of these files in the page cache, where another group's room would serve them."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with Cgroup(LIMIT) as procs:
        yield procs


def flash(bench, folder, rounds):
    """-> {side: [tokens/s]}. llama.cpp's file has the same shapes, but no predictors, which it would refuse."""
    model, plain = folder / "made.gguf", folder / "plain.gguf"
    vitro("make-model", model, "--preset", "1.3b", "--no-check")
    make_dense(LARGE, plain)
    for engine, _ in POLICIES.values():  # packed files are made before, with all memory
        ours(folder, model, engine | {"threads": 2}, {"budget": f"{LIMIT - PROCESS} B"}, {"prompt_tokens": 1, "output_tokens": 1})
    packs = [*folder.glob("*.vpacked")]
    found = {}
    with read_ahead(model, READ_AHEAD_KB):
        for turn in range(rounds):
            for name in [*POLICIES, "llama.cpp's mmap"][::1 if turn % 2 else -1]:
                with cold(model, plain, *packs) as procs:
                    if name in POLICIES:
                        engine, tokens = POLICIES[name]
                        rate = ours(folder, model, engine | {"threads": 2}, {"budget": f"{LIMIT - PROCESS} B"},
                                    {"prompt_tokens": 16, "output_tokens": tokens}, procs)["decode_tokens_per_s"]
                    else:
                        rate = theirs(bench, plain, 2, "-p", 0, "-n", 4, procs=procs)
                found.setdefault(name, []).append(round(rate, 3))
                print(name, found[name][-1], file=sys.stderr, flush=True)
    return found


def reads(bench, folder, rounds):
    """-> {(threads, "first" or "later", what): [a value each round]}: MiB and major faults, of a run that loads and decodes three tokens
    behind one that does not count, and of each further token, by the difference to a run of seven."""
    plain = folder / "plain.gguf"
    make_dense(LARGE, plain)
    found = {}
    with read_ahead(plain, READ_AHEAD_KB):
        for _ in range(rounds):
            for threads in (1, 2):
                short, long = (_read_by(bench, plain, threads, tokens) for tokens in (3, 7))
                for what in short:
                    found.setdefault((threads, "first", what), []).append(round(short[what]))
                    found.setdefault((threads, "later", what), []).append(round((long[what] - short[what]) / 4))
    return found


def _read_by(bench, plain, threads, tokens):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with cold(plain) as procs:
        theirs(bench, plain, threads, "-p", 0, "-n", tokens, procs=procs)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"MiB": (after.ru_inblock - before.ru_inblock) / 2048, "major faults": after.ru_majflt - before.ru_majflt}  # blocks of 512 bytes


def interval(ratios):
    """-> (median, lowest, highest of the 95 % interval of the median): order statistics, whose cover needs no distribution. Of nine
    the second and the eighth (96 %), of fifteen the fourth and the twelfth (96 %)."""
    from scipy.stats import binom
    ordered, n = sorted(ratios), len(ratios)
    drop = max((k for k in range(n // 2) if 1 - 2 * binom.cdf(k, n, 0.5) >= 0.95), default=0)
    return median(ordered), ordered[drop], ordered[-1 - drop]


def speed_rows(found):
    for (format_, threads, phase), sides in found.items():
        middle, low, high = interval([a / b for a, b in zip(sides["vitro"], sides["llama.cpp"])])
        yield (f"{format_}, {threads} thread{'s' if threads > 1 else ''}, {phase}", f"{median(sides['vitro']):.1f}",
               f"{median(sides['llama.cpp']):.1f}", f"{middle:.2f} ({low:.2f}-{high:.2f})")


def flash_rows(found):
    for name, rates in found.items():
        middle, low, high = interval([a / b for a, b in zip(found["neuron_cluster"], rates)])
        yield name, f"{median(rates):.2f}", f"{min(rates):.2f}-{max(rates):.2f}", f"{middle:.2f} ({low:.2f}-{high:.2f})"


def reads_rows(found):
    for (threads, when, what), values in found.items():
        name = "loading and four tokens" if when == "first" else "each further token"
        yield f"{threads} thread{'s' if threads > 1 else ''}, {name}, {what}", f"{median(values):.0f}", f"{min(values)}-{max(values)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "large", "flash", "reads"))
    parser.add_argument("bench", type=Path, help="llama-bench")
    parser.add_argument("--version", required=True, help="of llama.cpp, for the record: a commit or a release")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["VITRO_CACHE"] = name
        measure = {"speed": speed, "large": large, "flash": flash, "reads": reads}[options.part]
        found = measure(options.bench.resolve(), Path(name), options.rounds)
    of_speed = "| file, threads, phase | vitro | llama.cpp | vitro over llama.cpp |", speed_rows
    heads = {"speed": of_speed, "large": of_speed,
             "flash": ("| | tokens/s | lowest-highest | neuron_cluster over it |", flash_rows),
             "reads": ("| | median | lowest-highest |", reads_rows)}
    head, rows = heads[options.part]
    record = yaml.safe_load(RECORD.read_text()) if RECORD.exists() else {}
    keyed = {", ".join(map(str, key)) if isinstance(key, tuple) else key: value for key, value in found.items()}
    record |= {"peer": f"llama.cpp, github.com/ggml-org/llama.cpp, {options.version}", options.part: {
        "command": f"python experiments/validation/peers/llama_cpp.py {options.part} llama-bench --rounds {options.rounds}",
        "machine": cpu(), "values" if options.part == "reads" else "tokens_per_s": keyed}}
    RECORD.write_text("# Written by experiments/validation/peers/llama_cpp.py; docs/results/llama-cpp.md says what it shows.\n"
                      + yaml.safe_dump(record, sort_keys=False, width=130, default_flow_style=None))
    print(head + "\n" + "|---" * (head.count("|") - 1) + "|")
    for row in rows(found):
        print("| " + " | ".join(row) + " |")


def cpu():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


if __name__ == "__main__":
    main()
