"""Which lines of the C++ sources the tests run: `python tools/coverage.py [--only NAME,...] [--python PATH,...] [--more] [--report]`.

Builds the preset `coverage` (clang 19), runs the C++ tests with few cases of a kind and some Python tests of a copy of the checkout, whose
extension module is that build's, and writes build/coverage/report: table.md (lines by folder), unreached.txt (functions that nothing
called, and runs of lines that nothing reached, by file). --more: adds to the counts of the runs before. --report: writes from these alone.

NEON kernels and the Hexagon worker are left out: other architectures compile them, and their tests run on these.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "coverage"
PROFILES, REPORT, TREE = BUILD / "profiles", BUILD / "report", BUILD / "tree"
LEFT_OUT = ("engine/kernels/neon/", "engine/kernels/hexagon/hvx_worker/")
COUNTED = ("engine/", "sim/", "hw_models/")
# Those of parts that the C++ tests leave to Python; all of tests/python takes about two hours in such a build.
PYTHON_TESTS = ("device/test_characterize.py", "device/test_cross_fidelity.py", "device/test_python_models.py", "engine/test_lora.py",
                "engine/test_scaling.py", "engine/test_moe.py", "engine/test_moe_units.py", "engine/test_native.py",
                "engine/test_core_balance.py", "model", "plan", "policy", "calibrate", "torture", "validate", "running/test_run.py",
                "test_cli.py")
LEAST_LINES = 3  # of a run of unreached lines that is listed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME,...", help="of the C++ tests, as CTest names them; none: -")
    parser.add_argument("--python", metavar="PATH,...", default=",".join(PYTHON_TESTS), help="below tests/python; none: -")
    parser.add_argument("--more", action="store_true", help="keep the counts of the runs before")
    parser.add_argument("--report", action="store_true", help="no build and no tests")
    options = parser.parse_args()
    if not options.report:
        build()
        if not options.more:
            shutil.rmtree(PROFILES, ignore_errors=True)
        PROFILES.mkdir(parents=True, exist_ok=True)
        if options.only != "-":
            run_cpp(options.only)
        if options.python != "-":
            run_python(options.python.split(","))
    report()


def build():
    pybind = subprocess.run([sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["cmake", "-S", ROOT, "--preset", "coverage", f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind}"],
                   cwd=ROOT, check=True)
    subprocess.run(["ninja", "-C", BUILD], check=True,
                   env=os.environ | {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros"})


def counting():
    """%c: counts lie in a mapped file, so that those of a process which is killed, or ends without its destructors, are kept."""
    return os.environ | {"LLVM_PROFILE_FILE": str(PROFILES / "%m%c.profraw"), "VITRO_FEW_CASES": "1"}


def run_cpp(only):
    select = ["-R", "^(" + only.replace(",", "|") + ")$"] if only else []
    subprocess.run(["ctest", "--test-dir", BUILD, "-j2", "--timeout", "3000", "--output-on-failure", *select], env=counting())


def run_python(paths):
    """In a copy: an extension module in the checkout's own package would be everybody's."""
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.splitlines():
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)
    for module in (BUILD / "python").glob("_vitro*.so"):
        shutil.copy2(module, TREE / "python" / "vitro")
    (TREE / "build").mkdir(exist_ok=True)
    if not (TREE / "build" / "release").exists():
        (TREE / "build" / "release").symlink_to(BUILD)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "not all", "-p", "no:cacheprovider",
                    *(f"tests/python/{path}" for path in paths)],
                   cwd=TREE, env=counting() | {"PYTHONPATH": str(TREE / "python")})


def programs():
    """-> the objects whose counts are in the profiles: tests, the device's program, and the module."""
    found = [path for path in BUILD.rglob("*") if path.is_file() and not {"CMakeFiles", "tree"} & set(path.parts)
             and (path.name.endswith("_test") or path.name == "vitro-device" or path.name.startswith("_vitro") and path.suffix == ".so")]
    return sorted(found)


def report():
    REPORT.mkdir(parents=True, exist_ok=True)
    merged = REPORT / "all.profdata"
    subprocess.run(["llvm-profdata-19", "merge", "-sparse", "-o", merged, *sorted(PROFILES.glob("*.profraw"))], check=True)
    first, *others = programs()
    objects = [str(first), *(word for other in others for word in ("-object", str(other)))]
    with open(REPORT / "all.lcov", "w") as out:
        subprocess.run(["llvm-cov-19", "export", "-format=lcov", f"-instr-profile={merged}", *objects], stdout=out, check=True)
    files = read_lcov(REPORT / "all.lcov")
    (REPORT / "table.md").write_text(table(files))
    (REPORT / "unreached.txt").write_text(unreached(files))
    (REPORT / "lines.json").write_text(json.dumps({name: [len(hit), sum(hit.values())] for name, (hit, _) in files.items()}))
    print((REPORT / "table.md").read_text())


def read_lcov(path):
    """-> {source: ({line: whether it ran}, {function: whether it was called})}. A line or function counts as run when any object ran it."""
    files, lines, functions, places = {}, {}, {}, {}
    for text in open(path):
        key, _, value = text.strip().partition(":")
        if key == "SF":
            name = os.path.relpath(value, ROOT)
            kept = name.startswith(COUNTED) and not name.startswith(LEFT_OUT)
            lines, functions = files.setdefault(name, ({}, {})) if kept else ({}, {})
            places = {}
        elif key == "DA":
            line, count = map(int, value.split(",")[:2])
            lines[line] = lines.get(line, False) or count > 0
        elif key == "FN":
            line, function = value.split(",", 1)
            places[function] = int(line)
        elif key == "FNDA":
            count, function = value.split(",", 1)
            where = (places.get(function, 0), function)
            functions[where] = functions.get(where, False) or int(count) > 0
    return files


def table(files):
    folders = defaultdict(lambda: [0, 0])
    for name, (lines, _) in files.items():
        parts = Path(name).parent.parts
        for depth in range(1, len(parts) + 1):
            folders["/".join(parts[:depth])][0] += sum(lines.values())
            folders["/".join(parts[:depth])][1] += len(lines)
    rows = [f"| `{folder}` | {count:,} | {100 * run / count:.1f} % |" for folder, (run, count) in sorted(folders.items()) if count]
    return "\n".join(["| folder, with all below it | lines | run |", "|---|---|---|", *rows, ""])


def unreached(files):
    """Functions first; of the others runs of lines."""
    out = []
    for name, (lines, functions) in sorted(files.items()):
        by_line = defaultdict(list)  # an instance of a template that ran is enough
        for (line, function), ran in functions.items():
            by_line[line].append((function, ran))
        never = {line: all_[0][0] for line, all_ in by_line.items() if not any(ran for _, ran in all_)}
        runs = [run for run in runs_of(sorted(line for line, ran in lines.items() if not ran)) if run[1] - run[0] + 1 >= LEAST_LINES]
        if not never and not runs:
            continue
        out.append(f"{name}: {sum(lines.values())} of {len(lines)} lines")
        names = demangled(list(never.values()))
        out += [f"  {line}: never called: {function}" for line, function in zip(never, names)]
        out += [f"  {first}-{last}" for first, last in runs]
    return "\n".join(out) + "\n"


def runs_of(lines):
    runs = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs


def demangled(names):
    plain = [name.rpartition(":")[2] for name in names]  # a static function has its file before it
    if not plain:
        return []
    said = subprocess.run(["llvm-cxxfilt-19"], input="\n".join(plain), capture_output=True, text=True).stdout.splitlines()
    return said or plain


if __name__ == "__main__":
    main()
