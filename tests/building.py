"""What the stages of `./vitro test` have in common: a tally of cases, and builds by presets."""
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "test-results"


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)  # (name, what it said)

    def fail(self, name, said):
        self.failed += 1
        self.failures.append((name, said))

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures


def built(preset, log, wanted=None, programs=None, idle=False):
    """Configures, and builds `programs`, or the tests whose names match. -> names of these tests, and a tally of what failed or None.
    idle: only when no other process wants the cores."""
    build = ROOT / "build" / preset
    with open(log, "w") as out:
        if subprocess.run(["cmake", "-S", ROOT, "--preset", preset], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT).returncode:
            return [], broken(preset, "does not configure", log)
        names = [test["name"] for test in listed(build) if not wanted or wanted.search(test["name"])]
        if programs is None:
            programs = dict.fromkeys(name.removesuffix(".1") for name in names)  # a LONG test has two entries
        elif callable(programs):
            programs = programs(build)
        if not programs:
            return [], broken(preset, "has no such program", log)
        ninja = [*(("nice", "-n", "19") if idle else ()), "ninja", "-C", build]
        if subprocess.run([*ninja, *programs], stdout=out, stderr=subprocess.STDOUT).returncode:
            return [], broken(preset, "does not build", log)
    return names, None


def build_or_end(preset, programs):
    """-> the folder of the preset, with these programs in it."""
    _, wrong = built(preset, RESULTS / f"{preset}-build.log", programs=programs)
    if wrong:
        sys.exit("\n".join(f"FAILED {name}\n{said}" for name, said in wrong.failures))
    return ROOT / "build" / preset


def listed(build):
    answer = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)["tests"]


def fuzz_targets(build):
    answer = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True).stdout
    return sorted(re.findall(r"^(\S+_fuzz): CXX_EXECUTABLE_LINKER", answer, re.MULTILINE))


def fuzz_command(program, results):
    """-> what runs a fuzzer from tests/fuzz/<target> and the words of <target>.dict; inputs that it finds go to a folder in `results`."""
    found, seeds = results / program.name, ROOT / "tests" / "fuzz" / program.name
    found.mkdir(parents=True, exist_ok=True)
    return [program, "-seed=1", "-max_len=16384", "-timeout=20", "-rss_limit_mb=1024", f"-dict={seeds}.dict",
            f"-artifact_prefix={found}/crash-", found, seeds]


def failure(name, said):
    tally = Tally()
    tally.fail(name, said)
    return tally


def broken(preset, what, log):
    return failure(f"{preset}: {what}", tail(log.read_text(errors="replace")) + f"\n(whole log: {log})")


def tail(text, lines=30):
    return "\n".join(text.strip().splitlines()[-lines:])
