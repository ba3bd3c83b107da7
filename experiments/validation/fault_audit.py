"""What a page costs a core when it is read through a mapping: CPU time of this host's kernel, in cycles for each page of 4 KiB.
Needs root, loop devices and the memory controller of cgroup v1 or v2.

    .venv/bin/python experiments/validation/fault_audit.py [--mib 512] [--passes 5] [--json]

A child maps a file that is not in the page cache and touches every page in order, as a decoder reads its weights. What counts is the
CPU time of that process, so waiting for the disk is none of it. `room`: the page cache may hold the whole file. `reclaim`: a memory cgroup
holds a quarter of it, so that each page that comes takes the place of another, which the faulting process frees itself. Each is done with
several windows of read-ahead: CPU time = pages * P + requests * S. S is a request to the disk and the fault that waits for it; P is what a
page costs however it comes: allocation, page cache, lists, page table, and with `reclaim` another page's way out. `mapped`: pages that are
in the page cache and in no page table. docs/design/mmap.md has the result.
"""
import argparse
import contextlib
import json
import mmap
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from mmap_audit import CHILD_BYTES, PAGE, Cgroup, read_ahead

from vitro.calibrate.probes import ask

WINDOWS_KB = (128, 256, 512, 1024, 2048)  # large ones, beside whose pages a request is cheap


def in_child(work, procs=None):
    """What `work` returns, in a process of its own (of a cgroup)."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if procs is not None:
                procs.write_text(str(os.getpid()))
            os.write(write_end, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    answer = os.read(read_end, 1000)
    os.close(read_end)
    os.waitpid(child, 0)
    if not answer:
        raise SystemExit("fault_audit: a measuring process failed")
    return json.loads(answer)


def requests_of(path):
    """Reads that the device of `path` has completed."""
    device = os.stat(path).st_dev
    return int(Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()[0])


def touched(path, times=1):
    """CPU seconds and requests of touching every page of the mapped file, the last of `times`."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        for _ in range(times):
            requests, begin = requests_of(path), time.process_time()
            view[::PAGE]  # a loop in C that reads one byte of each page
            seconds = time.process_time() - begin
        return seconds, requests_of(path) - requests


@contextlib.contextmanager
def small_pages(folder, size):
    """A file system whose page cache holds single pages, as those of phones do: ext4 has larger ones but where it journals data."""
    image, root = Path(folder) / "image", Path(folder) / "root"
    root.mkdir()
    with open(image, "wb") as file:
        file.truncate(size + (256 << 20))
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    made = subprocess.run(["losetup", "--direct-io=on", "-f", "--show", str(image)], check=True, capture_output=True, text=True)
    loop = made.stdout.strip()
    try:
        subprocess.run(["mount", "-o", "data=journal", loop, str(root)], check=True)
        try:
            yield root
        finally:
            subprocess.run(["umount", str(root)], check=True)
    finally:
        subprocess.run(["losetup", "-d", loop], check=True)


def forget(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_pass(path, size):
    """-> {case: [(CPU seconds, requests) for each window]}."""
    found = {"room": [], "reclaim": [], "mapped": []}
    for window in WINDOWS_KB:
        with read_ahead(path, window):
            forget(path)
            found["room"].append(in_child(lambda: touched(path)))
            found["mapped"].append(in_child(lambda: touched(path)))
            forget(path)
            with Cgroup(size // 4 + CHILD_BYTES) as procs:
                found["reclaim"].append(in_child(lambda: touched(path, times=2), procs))  # the first time fills what is free
    return found


def line(samples, pages):
    """Least squares of the relative error of seconds = pages * P + requests * S -> (P, S)."""
    rows = [(pages / s, requests / s) for s, requests in samples]
    aa, ab, bb = (sum(x * y for x, y in pairs) for pairs in ([(a, a) for a, _ in rows], rows, [(b, b) for _, b in rows]))
    sa, sb = sum(a for a, _ in rows), sum(b for _, b in rows)
    determinant = aa * bb - ab * ab
    return (sa * bb - sb * ab) / determinant, (aa * sb - ab * sa) / determinant


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size = options.mib << 20
    pages = size // PAGE
    clock = statistics.median(ask("clock", {"repetitions": 30})["samples"])
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder, small_pages(folder, size) as root:
        path = root / "pages"
        with open(path, "wb") as file:
            for _ in range(options.mib):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        passes = [one_pass(path, size) for _ in range(options.passes)]
    rows = {"clock_hz": round(clock)}
    for case in ("room", "reclaim"):
        lines = [line(found[case], pages) for found in passes]
        rows[case] = {"cycles_per_page": [round(page * clock) for page, _ in lines],
                      "cycles_per_request": [round(each * clock) for _, each in lines],
                      "requests": [requests for _, requests in passes[0][case]]}
    rows["mapped"] = {"cycles_per_page": [round(statistics.median(s for s, _ in found["mapped"]) / pages * clock) for found in passes]}
    if options.json:
        print(json.dumps(rows))
        return
    windows = ", ".join(map(str, WINDOWS_KB))
    print(f"file {options.mib} MiB, read ahead {windows} KiB, clock {clock / 1e9:.2f} GHz; cycles, one number for each pass")
    for case in ("room", "reclaim", "mapped"):
        for what in ("cycles_per_page", "cycles_per_request"):
            if what in rows[case]:
                print(f"{case:>8} {what.replace('_', ' '):<19} {' '.join(map(str, rows[case][what]))}")


if __name__ == "__main__":
    main()
