"""A context of 32 K tokens on this computer, its keys and values in flash by direct I/O, in a memory cgroup: what it really takes.

    .venv/bin/python experiments/validation/long_context.py [--tokens 32768] [--heads 1] [--budget 64] [--folder DIR] [--json]

Makes a small random model, runs it with everything in DRAM, and then with most keys and values in flash, alone in a memory cgroup. Both
have to give the same tokens. `growth`: the largest resident set of the process less `start`, that of the same program when it is loaded
and has done nothing.
Needs root, the memory controller of cgroup v1 or v2, and vitro-device. docs/results/long-context.md has the result.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import oracle  # noqa: E402  writes the random model

DEVICE = ROOT / "build" / "release" / "engine" / "app" / "vitro-device"
LAYERS, HEAD = 5, 64
OUTPUTS = 3
BESIDE = 8 << 20  # of the cgroup beside the budget: the program itself, and what the kernel keeps for it
ENGINE = {"threads": 1, "prefill_chunk": 256, "kv": {"block_tokens": 32}}


def experiment(model, tokens, kv, **memory):
    engine = ENGINE | {"kv": ENGINE["kv"] | kv, "prefill_order": "layers"}
    return {"experiment": "long_context_on_host", "machine": "host", "model": {"gguf": str(model)}, "engine": engine, "memory": memory,
            "workload": {"prompt_tokens": tokens, "output_tokens": OUTPUTS, "stop_at_eos": False}}


@contextlib.contextmanager
def cgroup(limit):
    v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    path = Path("/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/memory") / f"vitro-long-context-{os.getpid()}"
    path.mkdir()
    try:
        (path / ("memory.max" if v2 else "memory.limit_in_bytes")).write_text(str(limit))
        yield path / "cgroup.procs"
    finally:
        path.rmdir()


def resident(process):
    """-> (largest so far, now) in bytes; None once it has ended"""
    with contextlib.suppress(OSError):
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        if "VmHWM" in fields:
            return tuple(int(fields[key].split()[0]) << 10 for key in ("VmHWM", "VmRSS"))
    return None


def loaded():
    """-> the resident set of the program before it has read anything, in bytes: one that waits for room to print its usage"""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, bytes(1 << 16)):
            pass
    os.set_blocking(writing, True)
    with subprocess.Popen([DEVICE], stdout=writing, stderr=writing) as child:
        while "pipe_write" not in Path(f"/proc/{child.pid}/wchan").read_text():
            time.sleep(0.01)
        found = resident(child.pid)[1]
        child.kill()
    os.close(reading)
    os.close(writing)
    return found


def run(tree, folder, procs=None):
    """-> (result, largest resident set in bytes)"""
    file = folder / "experiment.json"
    file.write_text(json.dumps(tree))
    # The shell joins the group and becomes the program, so that all of it counts there.
    join = f"echo $$ > {procs}; " if procs else ""
    child = subprocess.Popen(["sh", "-c", f"{join}exec {DEVICE} run {file} --cache {folder}"], stdout=subprocess.PIPE, text=True)
    peak = 0
    while child.poll() is None:
        peak = max(peak, (resident(child.pid) or (0,))[0])
        time.sleep(0.02)
    answer = child.stdout.read()
    if child.returncode:
        raise SystemExit(f"vitro-device ended with {child.returncode}")
    return json.loads(answer), peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--heads", type=int, help="of the model; default: as many as make keys and values as large as those of 32,768 "
                                                  "tokens with one head")
    parser.add_argument("--budget", type=int, default=64, help="MiB")
    parser.add_argument("--folder", type=Path, help="for the model and the scratch file; on flash")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    budget = options.budget << 20
    with tempfile.TemporaryDirectory(dir=options.folder or Path.home()) as name:
        folder = Path(name)
        model = folder / "model.gguf"
        heads = options.heads or max(1, 32768 // options.tokens)
        shape = oracle.Shape(layers=LAYERS, width=HEAD * heads, heads=heads, kv_heads=heads, ffn=2 * HEAD * heads,
                             context=options.tokens + OUTPUTS)
        oracle.write_gguf(oracle.random_model(shape, 1), model)
        in_dram, _ = run(experiment(model, options.tokens, {}), folder)
        flash = {"keep": "budget", "scratch": str(folder)}
        with cgroup(budget + budget // 10 + BESIDE) as procs:
            in_flash, peak = run(experiment(model, options.tokens, flash, budget=f"{budget} B"), folder, procs)
    moved = in_flash["metrics"]["kv_flash"]
    start = loaded()
    growth = peak - start
    answer = {"tokens": options.tokens, "heads": heads, "equal": in_flash["tokens"] == in_dram["tokens"],
              "storage": in_flash["storage_path"],
              "budget_bytes": budget, "peak_memory_bytes": in_flash["metrics"]["peak_memory_bytes"], "start_bytes": start,
              "growth_bytes": growth,
              "in_dram_bytes": in_dram["metrics"]["peak_memory_bytes"], "written_bytes": moved["bytes_written"],
              "read_bytes": moved["bytes_read"], "hidden_share": moved["hidden_share"]}
    if options.json:
        print(json.dumps(answer))
    else:
        for key, value in answer.items():
            print(f"{key:>18}  {value / 2**20:.1f} MiB" if key.endswith("_bytes") else f"{key:>18}  {value}")
    raise SystemExit(0 if answer["equal"] and growth < 1.1 * budget else 1)


if __name__ == "__main__":
    main()
