"""The project's tests, counted: `./vitro test [--all] [--only release,pytest,...]`.

Stages: the release build's C++ tests, the Python tests (tests/tidy among them), and a smoke run: the parts that parse files
with the address sanitizer, and those that have threads with the thread sanitizer. With --all, also the Python tests that
measure committed tables again, and instead of the smoke run all C++ tests under sanitizers and on emulated aarch64, and a
short run of each fuzzer. What the smoke run needs is built beside the stages before it. A case counts once per stage that ran it.
The last line is `N passed, N failed, N skipped`; the exit code is 1 when something failed.
"""
import argparse
import functools
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from building import RESULTS, ROOT, Tally, built, failure, fuzz_command, fuzz_targets, tail
from soak import soak

# The thread sanitizer is for tests of what has threads, and a whole run on the real machine (`vitro-device`).
TSAN = re.compile(r"^(host|machine|traces)_test|^vitro-device$")
SMOKE = {"asan": re.compile(r"^(base|model|traces)_test(\.1)?$"), "tsan": re.compile(r"^(host|machine)_test(\.1)?$")}
# An emulated processor is for what depends on the processor: kernels, operators and threads, and a whole run (`vitro-device`).
AARCH64 = re.compile(r"^(base|tensor|ops|kernels|machine|host)_test|^vitro-device$")
QUICK, ALL = ("release", "pytest", "smoke"), ("release", "aarch64", "pytest", "asan", "tsan", "fuzz")
FUZZ_RUNS = 20000
CORES = len(os.sched_getaffinity(0))


def main():
    # Python tests run what aarch64 builds, if it is there.
    stages = {"release": lambda: ctest("release", every=options.all), "aarch64": lambda: sanitizer("aarch64", AARCH64),
              "pytest": lambda: pytest(options.all), "smoke": lambda: smoke(beside.submit(built_for_smoke).result()),
              "asan": lambda: sanitizer("asan"), "tsan": lambda: sanitizer("tsan", TSAN), "fuzz": fuzz}
    parser = argparse.ArgumentParser(prog="./vitro test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help=f"every test: {', '.join(ALL)}; without it {', '.join(QUICK)}")
    parser.add_argument("--only", metavar="STAGE,...", help=f"of {', '.join(stages)}")
    parser.add_argument("--soak", metavar="HOURS", type=float, help="instead: drawn faults, fuzzers, tests of the real machine under "
                        "sanitizers, and a sweep of 10,000 points, for so many hours each (tests/soak.py)")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else ALL if options.all else QUICK
    if unknown := set(wanted) - set(stages):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    total = Tally()
    if options.soak:
        soak(options.soak, total)
        wanted = ()
    beside = ThreadPoolExecutor(1)
    if "smoke" in wanted:
        beside.submit(built_for_smoke)
    for name, stage in stages.items():
        if name in wanted:
            began = time.monotonic()
            print(f"{name} ...", flush=True)
            tally = stage()
            print(f"{name}: {tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped in {time.monotonic() - began:.0f} s")
            total.add(tally)
    if options.all:
        total.add(bill_of_materials())
    for name, said in total.failures:
        print(f"\nFAILED {name}\n{said}")
    if total.passed == 0:
        total.fail("./vitro test", "no test ran")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


def bill_of_materials():
    """Writes sbom.cdx.json beside the reports."""
    command = [sys.executable, ROOT / "tools/supply/sbom.py", RESULTS / "sbom.cdx.json"]
    run = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True)
    return failure("bill of materials", tail(run.stderr)) if run.returncode else Tally()


@functools.cache
def built_for_smoke():
    """-> what built() says of each preset, once for all who ask. On cores that other stages leave idle."""
    return {preset: built(preset, RESULTS / f"{preset}-build.log", wanted, idle=True) for preset, wanted in SMOKE.items()}


def smoke(ready):
    tally = Tally()
    for preset, (names, wrong) in ready.items():
        tally.add(wrong or ctest(preset, names))
    return tally


def sanitizer(preset, wanted=None):
    """Configures and builds the preset's tests (those whose names match), and runs them."""
    names, wrong = built(preset, RESULTS / f"{preset}-build.log", wanted)
    return wrong or ctest(preset, names)


def ctest(preset, names=None, every=True):
    """Runs CTest; a GoogleTest binary counts with its cases, any other entry as one. every: all cases of a kind (tests/effort.hpp)."""
    build, folder = ROOT / "build" / preset, RESULTS / preset
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir()
    report = folder / "ctest.junit"
    select = ["-R", "^(" + "|".join(map(re.escape, names)) + ")$"] if names else []
    env = os.environ | {"GTEST_OUTPUT": f"xml:{folder}/"} | ({} if every else {"VITRO_FEW_CASES": "1"})
    command = ["ctest", "--test-dir", build, f"-j{CORES}", "--timeout", "1500", "--no-tests=error", "--output-junit", report, *select]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    if not report.exists():
        return failure(f"{preset}: ctest", tail(run.stdout + run.stderr))
    tally = Tally()
    for entry in xml.parse(report).getroot().iter("testcase"):
        tally.add(binary(preset, entry, folder / f"{entry.get('name')}.xml"))
    return tally


def binary(preset, entry, cases):
    """-> the tally of one CTest entry. A crash leaves no GoogleTest report, or one without a failure: both count as one."""
    tally = junit(cases, preset) if cases.exists() else Tally()
    said = tail(entry.findtext("system-out") or "")
    if entry.get("status") == "run" and entry.find("failure") is None:
        if not cases.exists():
            tally.passed += 1
    elif tally.failed == 0:
        tally.fail(f"{preset}: {entry.get('name')}", said or "did not run")
    return tally


def junit(path, label):
    """-> the tally of a JUnit-like report, which GoogleTest and pytest both write."""
    tally = Tally()
    for case in xml.parse(path).getroot().iter("testcase"):
        bad = [*case.findall("failure"), *case.findall("error")]
        if bad:
            said = "\n".join(tail(item.text or item.get("message") or "") for item in bad)
            tally.fail(f"{label}: {case.get('classname')}.{case.get('name')}", said)
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            tally.skipped += 1
        else:
            tally.passed += 1
    return tally


def pytest(every):
    report = RESULTS / "pytest.xml"
    report.unlink(missing_ok=True)
    # VITRO_ALL_BUILT: tests of the real extension module must then run, not skip.
    # By file: what a module's fixtures make is made once. More than cores, since many tests wait for what they have started.
    # In the order of tests/python/conftest.py, not those of most tests first.
    command = [sys.executable, "-m", "pytest", "--tb=short", f"-n{CORES + CORES // 2}", "--dist=loadfile", "--no-loadscope-reorder",
               f"--junitxml={report}", *([] if every else ["-m", "not all"]), "tests/tidy", "tests/python"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "VITRO_ALL_BUILT": "1",
        "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"),  # each file is compiled once, not by every process
        "OPENBLAS_NUM_THREADS": "1"}                             # NumPy's threads would wait for work by spinning
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    tally = junit(report, "pytest") if report.exists() else Tally()
    if run.returncode and tally.failed == 0:
        tally.fail("pytest", tail(run.stdout + run.stderr))
    return tally


def fuzz():
    """Builds every *_fuzz target and lets each try some thousand inputs."""
    build = ROOT / "build" / "asan"
    _, wrong = built("asan", RESULTS / "fuzz-build.log", programs=lambda build: [Path(name).name for name in fuzz_targets(build)])
    if wrong:
        return wrong
    tally = Tally()
    with ThreadPoolExecutor(CORES) as pool:
        for one in pool.map(fuzzed, [build / name for name in fuzz_targets(build)]):
            tally.add(one)
    return tally


def fuzzed(program):
    command = [*fuzz_command(program, RESULTS / "fuzz"), f"-runs={FUZZ_RUNS}", "-max_total_time=120"]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return failure(f"fuzz: {program.name}", tail(run.stderr)) if run.returncode else Tally(passed=1)


if __name__ == "__main__":
    sys.exit(main())
