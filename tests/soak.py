"""Hours of what the other stages do for minutes: `./vitro test --soak HOURS`.

Each part has so many hours, one part after the other:
- `torture`: drawn configurations on machines that go wrong (`vitro torture`), on the virtual machine, then a tenth of the time in sim and
  on host each.
- `fuzz`: the targets of the stage `fuzz`, two at a time.
- `host`: tests of the real machine, again and again in one process under the address and under the thread sanitizer, side by side.
- `sweep`: 10,000 points in one store, whose sweep is killed once and resumed.

A process of tests or of torture may not grow: the median of its resident memory in the last fifth of the time may be 10 % and 16 MiB above
that of the second fifth. What was run, and the two medians, is in build/test-results/soak.json.
"""
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import yaml
from building import RESULTS, ROOT, build_or_end, fuzz_command, fuzz_targets

VITRO = [sys.executable, "-m", "vitro"]
POINTS = 100  # of each of two keys
PARTS = 10  # files of the store, after which its sweep is killed
SANITIZERS = {"asan": {"ASAN_OPTIONS": "quarantine_size_mb=16"}, "tsan": {}}
GROWTH, SLACK_MIB = 1.1, 16
SAMPLE_S = 5.0
STALL_S = 900.0  # no repetition of a test program takes longer, with any sanitizer


class Watched:
    """A process of whose resident memory samples are kept."""
    def __init__(self, command, log, env=None):
        self.log, self.samples, self.began = Path(log), [], time.monotonic()
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT, cwd=ROOT,
                                            env=os.environ | {"PYTHONPATH": str(ROOT / "python")} | (env or {}), start_new_session=True)

    def sample(self):
        """All processes of its session count: it may leave the work to children."""
        pages = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                fields = stat.read_text().rpartition(")")[2].split()
                pages += int(fields[21]) if int(fields[3]) == self.process.pid else 0
        if pages:
            self.samples.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)

    def silent_for(self):
        """Seconds since it last wrote something."""
        return time.time() - self.log.stat().st_mtime

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def memory(self):
        """-> MiB in the second fifth and in the last one, medians; None: too short to tell."""
        fifth = len(self.samples) // 5
        return [statistics.median(part) for part in (self.samples[fifth:2 * fifth], self.samples[-fifth:])] if fifth > 0 else None


def grew(memory):
    return memory is not None and memory[1] > memory[0] * GROWTH + SLACK_MIB


def watch(running, seconds):
    """Until all of `running` have ended or the time is over. A process that ends well before is not begun again."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until and any(one.process.poll() is None for one in running):
            for one in running:
                one.sample()
            time.sleep(min(SAMPLE_S, max(0.01, until - time.monotonic())))
    except BaseException:  # they are sessions of their own, which Ctrl-C does not reach
        for one in running:
            one.end()
        raise


def soak(hours, tally):
    """tally: takes what happened."""
    seconds, found = 3600 * hours, {}
    for part in (torture, fuzz, host, sweep):
        print(f"soak: {part.__name__} ...", flush=True)
        found[part.__name__] = part(seconds)
        for name, what in found[part.__name__].items():
            print(f"soak: {name}: {what}", flush=True)
            if what["failed"] is None:
                tally.passed += 1
            else:
                tally.fail(f"soak: {name}", what["failed"])
        (RESULTS / "soak.json").write_text(json.dumps(found, indent=1))

def outcome(one, failed, may_grow=False, **more):
    """failed: what is wrong, or None. A process that grew and may not is wrong, too."""
    memory = one.memory()
    if failed is None and not may_grow and grew(memory):
        failed = f"resident memory went from {memory[0]:.0f} to {memory[1]:.0f} MiB"
    hours = round((time.monotonic() - one.began) / 3600, 3)
    return {"failed": failed, "hours": hours, "MiB": memory and [round(x, 1) for x in memory]} | more


def said(one, lines=30):
    return "\n".join(one.log.read_text(errors="replace").splitlines()[-lines:])


def torture(seconds):
    found = {}
    for machine, share, first in (("virtual", 0.8, 0), ("sim", 0.1, 10**6), ("host", 0.1, 2 * 10**6)):
        log = RESULTS / f"soak-torture-{machine}.log"
        log.unlink(missing_ok=True)
        one = Watched([*VITRO, "torture", "--machine", machine, "--seeds", 10**7, "--from", first, "--hours", share * seconds / 3600,
                       "--jobs", os.cpu_count() or 1, "--shrink", "--out", RESULTS / "torture", "--json"], log)
        watch([one], 2 * share * seconds + 300)
        one.end()
        found[f"torture on {machine}"] = outcome(one, None if one.process.returncode == 0 else said(one))
    return found


def fuzz(seconds):
    folder = build_or_end("asan", lambda folder: [Path(name).name for name in fuzz_targets(folder)])
    programs, found = [folder / name for name in fuzz_targets(folder)], {}
    for pair in (programs[i:i + 2] for i in range(0, len(programs), 2)):
        running = {}
        for program in pair:
            log = RESULTS / f"soak-{program.name}.log"
            log.unlink(missing_ok=True)
            share = int(seconds * len(pair) / len(programs)) + 1
            command = [*fuzz_command(program, RESULTS / "soak"), f"-max_total_time={share}", "-print_final_stats=1"]
            running[program.name] = Watched(command, log)
        watch(list(running.values()), 2 * share + 300)
        for name, one in running.items():
            one.end()
            if one.process.returncode:
                found[name] = outcome(one, said(one))
            else:  # it keeps what it found, so it may grow
                found[name] = {"failed": None, "hours": round(share / 3600, 3)} | final_stats(one)
    return found


def final_stats(one):
    """-> inputs tried, and how many were kept, as libFuzzer says at its end."""
    lines = one.log.read_text(errors="replace").splitlines()
    stats = dict(line.removeprefix("stat::").split(":") for line in lines if line.startswith("stat::"))
    return {"inputs": int(stats["number_of_executed_units"]), "kept": int(stats["new_units_added"])}


def host(seconds):
    programs = {preset: build_or_end(preset, ["host_test"]) / "tests/engine/host/host_test" for preset in SANITIZERS}
    running = {}
    for preset, env in SANITIZERS.items():
        log = RESULTS / f"soak-host-{preset}.log"
        log.unlink(missing_ok=True)
        running[preset] = Watched([programs[preset], "--gtest_repeat=-1", "--gtest_brief=1"], log, env)
    watch(list(running.values()), seconds)
    found = {}
    for preset, one in running.items():
        ended, silent = one.process.poll(), one.silent_for()
        one.end()
        found[f"host tests, {preset}"] = judged(one, ended, silent)
    return found


def judged(one, ended, silent):
    """Of tests that repeat without an end. ended: their exit code, None while they ran; silent: seconds since they last said something."""
    text = one.log.read_text(errors="replace")
    wrong = "[  FAILED  ]" in text or "Sanitizer" in text or ended is not None
    failed = said(one, 60) if wrong else f"silent for {silent:.0f} s: it hangs" if silent > STALL_S else None
    return outcome(one, failed, repetitions=text.count(" ran. ("))


def sweep(seconds):
    import pyarrow.parquet as parquet
    folder, log, study = (RESULTS / f"soak-sweep{ending}" for ending in ("", ".log", ".yaml"))
    log.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    many = list(range(1, POINTS + 1))
    tree = yaml.safe_load((ROOT / "experiments/benchmarks/decode_7b.yaml").read_text())
    tree |= {part: str(ROOT / "experiments/benchmarks" / tree[part]) for part in ("device", "model")}
    tree |= {"sweep": {"workload.prompt_tokens": many, "workload.seed": many}}
    study.write_text(yaml.safe_dump(tree))
    command = [*VITRO, "sweep", study, "--out", folder, "--resume", "--set", "workload.output_tokens=2"]
    first = Watched(command, log)
    while first.process.poll() is None and sum(1 for _ in folder.rglob("*.parquet")) < PARTS:
        time.sleep(0.05)
    first.end()
    if first.process.returncode != -signal.SIGKILL:
        return {"sweep": outcome(first, "it ended before it could be killed:\n" + said(first))}
    one = Watched(command, log)
    watch([one], seconds)
    one.end()
    if one.process.returncode:
        return {"sweep": outcome(one, said(one))}
    table = parquet.read_table(folder / "results.parquet").to_pylist()
    points = {(row["workload.prompt_tokens"], row["workload.seed"]) for row in table}
    # Nothing is drawn in these runs, so all seeds of a prompt give the same speed.
    speeds = {(row["workload.prompt_tokens"], row["decode_tokens_per_s"]) for row in table}
    right = len(table) == len(points) == POINTS**2 and len(speeds) == POINTS
    why = f"{len(table)} rows, {len(points)} points, {len(speeds)} speeds (expected {POINTS**2}, {POINTS**2}, {POINTS})"
    return {"sweep": outcome(one, None if right else why, may_grow=True, rows=len(table))}  # it holds a table of all rows
