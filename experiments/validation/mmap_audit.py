"""Holds the `mmap` policy against a real mapping: the same file, the same page order, the same room, and how many bytes
each of them reads per token. Needs root and the memory controller of cgroup v1 or v2.

    .venv/bin/python experiments/validation/mmap_audit.py [--tokens 6] [--json]

The policy enforces its budget with direct reads; the kernel is held to it by a memory cgroup whose only tenant is a child
that maps the packed file and touches pages in the order in which the engine uses them. docs/design/mmap.md has the result.
"""
import argparse
import contextlib
import json
import mmap
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "python"))
import oracle  # noqa: E402  writes the random model
import vitro  # noqa: E402

PAGE = 4096
READ_AHEAD_KB = 128     # of the policy by default, and of most phones; set for the block device while the audit runs
CHILD_BYTES = 2 << 20   # what the child needs beside the mapping: page tables, its own heap
SHAPE = oracle.Shape(layers=6, width=768, heads=12, kv_heads=4, ffn=2560)


def experiment(model, budget, tokens):
    return {"experiment": "mmap_audit", "machine": "host", "model": {"gguf": str(model)},
            "engine": {"policy": "mmap", "threads": 1}, "memory": {"budget": f"{budget} B"},
            "workload": {"prompt_tokens": 1, "output_tokens": tokens, "stop_at_eos": False}}


def policy_run(model, budget, tokens, out):
    result = vitro.run(experiment(model, budget, tokens), out=out)
    log = [json.loads(line) for line in (Path(out) / "decisions.jsonl").read_text().splitlines()]
    loads = [entry["what"].split()[1] for entry in log if entry["kind"] == "load" and entry["what"].startswith("page ")]
    decode = result["metrics"]["flash_bytes_read"]["decode"] / (tokens - 1)
    return decode, [tuple(map(int, run.split("+"))) for run in loads], result["peak_memory"]["cold"]


def one_token(loads):
    """Page runs of one token: a run that thrashes loads everything anew each time, so its log repeats."""
    seen, order = set(), []
    for first, count in loads:
        if (first, count) in seen:
            break
        seen.add((first, count))
        order.append((first, count))
    return order


class Cgroup:
    def __init__(self, limit):
        v2 = Path("/sys/fs/cgroup/cgroup.controllers")
        base = Path("/sys/fs/cgroup") if v2.exists() else Path("/sys/fs/cgroup/memory")
        self.path = base / f"vitro-mmap-audit-{os.getpid()}"
        self.path.mkdir()
        name = "memory.max" if v2.exists() else "memory.limit_in_bytes"
        (self.path / name).write_text(str(limit))

    def __enter__(self):
        return self.path / "cgroup.procs"

    def __exit__(self, *_):
        self.path.rmdir()


@contextlib.contextmanager
def read_ahead(path, kib=READ_AHEAD_KB):
    """The device of `path` with that read-ahead, and what it had before afterwards."""
    device = os.stat(path).st_dev
    setting = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/read_ahead_kb")
    before = setting.read_text()
    setting.write_text(str(kib))
    try:
        yield
    finally:
        setting.write_text(before)


def kernel_bytes(packed, order, limit, tokens):
    """Bytes per token that the kernel reads for the mapping, after one token of warming up."""
    with open(packed, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    read_end, write_end = os.pipe()
    with Cgroup(limit + CHILD_BYTES) as procs:
        child = os.fork()
        if child == 0:
            with open(packed, "rb") as file:
                procs.write_text(str(os.getpid()))
                view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                counts = []
                for _ in range(tokens + 1):
                    for first, count in order:
                        for page in range(first, first + count):
                            view[page * PAGE]
                    counts.append(next(int(line.split()[1]) for line in open("/proc/self/io") if line.startswith("read_bytes")))
                os.write(write_end, json.dumps((counts[-1] - counts[0]) / tokens).encode())
            os._exit(0)
        os.close(write_end)
        answer = os.read(read_end, 100)
        os.waitpid(child, 0)
    return json.loads(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder, read_ahead(folder):
        os.environ["VITRO_CACHE"] = folder
        model = Path(folder) / "model.gguf"
        oracle.write_gguf(oracle.random_model(SHAPE, 1), model)
        size = model.stat().st_size
        _, loads, _ = policy_run(model, size // 3, 4, Path(folder) / "order")
        order = one_token(loads)
        packed = next(Path(folder).glob("*.vpacked"))
        for share in (0.4, 0.6, 0.8, 0.95, 1.05):
            policy, _, room = policy_run(model, int(size * share), options.tokens, Path(folder) / "run")
            kernel = kernel_bytes(packed, order, room, options.tokens)
            rows.append({"room_bytes": room, "room_share": round(room / size, 3), "policy_bytes_per_token": policy,
                         "kernel_bytes_per_token": kernel, "ratio": round(policy / kernel, 3) if kernel else None})
    if options.json:
        print(json.dumps({"file_bytes": size, "rows": rows}))
        return
    print(f"file {size / 2**20:.1f} MiB, {options.tokens} tokens")
    print(f"{'room':>8} {'policy MiB/token':>18} {'kernel MiB/token':>18} {'ratio':>7}")
    for row in rows:
        policy, kernel = (row[f"{who}_bytes_per_token"] / 2**20 for who in ("policy", "kernel"))
        print(f"{row['room_share']:>8.0%} {policy:>18.1f} {kernel:>18.1f} {row['ratio'] or '-':>7}")


if __name__ == "__main__":
    main()
