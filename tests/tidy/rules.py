"""House rules that a machine can check. Each rule yields (line, message) for one file; `RULES` names them all.

`python tests/tidy/rules.py` prints every violation, and the sources that no test mirrors.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP = (".cpp", ".hpp", ".h", ".c", ".cc")
CODE = (*CPP, ".py", ".cmake", "CMakeLists.txt", ".sh")
TEXT = (*CODE, ".md", ".yaml", ".yml", ".json", ".toml", ".j2", ".txt", ".ipynb")
POLICIES = ("engine/attention/", "engine/ffn/", "engine/moe/", "engine/decode/", "engine/scaling/")
POLICY_MAY_SEE = ("engine/base/", "engine/machine/", "engine/model/", "engine/quant/", "engine/kernels/contract.hpp",
                  "engine/kernels/variants.hpp", *POLICIES)
# Real time and real randomness live here alone; benchmarks measure, so they may look at the clock.
REAL_MACHINE = ("engine/host/", "tests/engine/host/", "experiments/benchmarks/")
MAX_COLUMNS, MAX_LINES = 140, 400
SKIPPED = {".git", "build", "out", ".venv", ".vitro", "__pycache__", ".pytest_cache", ".hypothesis"}


def files():
    """The project's text files, relative to its root: what git tracks, or everything where there is no git."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True)
        names = listed.stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [os.path.relpath(os.path.join(folder, name), ROOT) for folder, folders, found in os.walk(ROOT) for name in found
                 if not SKIPPED & set(Path(os.path.relpath(folder, ROOT)).parts)]
    return sorted(name for name in names if name and (name.endswith(TEXT) or name in ("vitro", ".ci/run")) and (ROOT / name).is_file())


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line):
            yield number, match.group(1)


def without_comments(text):
    """C++ code with comments, texts and characters blanked out; line numbers stay."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.DOTALL)


def engine_without_systemc(path, text):
    if path.startswith("engine/") and path.endswith(CPP):
        for number, name in includes(text):
            if re.match(r"systemc|sysc/|tlm", name):
                yield number, f"the engine includes no SystemC ({name})"


def engine_stands_alone(path, text):
    if path.startswith("engine/") and path.endswith(CPP):
        for number, name in includes(text):
            if name.startswith(("sim/", "hw_models/", "python/", "pybind11/", "Python.h")):
                yield number, f"engine/ must not include {name}"


def hw_models_know_only_base(path, text):
    if path.startswith("hw_models/") and path.endswith(CPP):
        for number, name in includes(text):
            if name.startswith(("engine/", "sim/", "python/")) and not name.startswith("engine/base/"):
                yield number, f"of engine/ a hardware model knows base/ alone ({name})"


def policies_see_the_seam(path, text):
    if path.startswith(POLICIES) and path.endswith(CPP):
        for number, name in includes(text):
            if name.startswith(("engine/", "sim/", "hw_models/")) and not name.startswith(POLICY_MAY_SEE):
                yield number, f"a policy sees machine, model, quant and kernel contracts, not {name}"


_BANNED = re.compile(r"\b(?:steady_clock|system_clock|high_resolution_clock)\s*::\s*now\b|\bsystem_clock\b|\brandom_device\b|"
                     r"\bs?rand\s*\(|\bgettimeofday\b|\bclock_gettime\b|\bmt19937(?:_64)?\b|\btime\s*\(\s*(?:nullptr|NULL|0)\s*\)")


def no_ambient_time_or_chance(path, text):
    if path.endswith(CPP) and not path.startswith(REAL_MACHINE):
        for number, line in enumerate(without_comments(text).splitlines(), 1):
            if match := _BANNED.search(line):
                yield number, f"time and randomness are injected: {match.group().strip()} belongs in engine/host"


def headers_have_pragma_once(path, text):
    if path.endswith((".hpp", ".h")) and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield 1, "a header needs #pragma once"


def short_lines(path, text):
    if path.endswith(CODE) or path in ("vitro", ".ci/run"):
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                yield number, f"{len(line)} columns (at most {MAX_COLUMNS})"


def short_files(path, text):
    if path.endswith(CODE) and (count := text.count("\n")) > MAX_LINES:
        yield count, f"{count} lines (at most {MAX_LINES}; most files stay under 300)"


def clean_whitespace(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if line.endswith("\r"):
            yield number, "CRLF"
        elif line != line.rstrip() and not path.endswith((".md", ".txt")):
            yield number, "trailing whitespace"
        elif "\t" in line and path.endswith((*CPP, ".py")):
            yield number, "a tab"
    if text and not text.endswith("\n") and not path.endswith((".txt", ".json", ".ipynb")):
        yield text.count("\n") + 1, "no newline at the end"


def nothing_left_to_do(path, text):
    if path.endswith(CODE):
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.search(r"\b(?:TODO|FIXME|XXX|HACK)\b", line):
                yield number, f"{match.group()}: finish it, or write it down as a known limit"


def no_machine_paths(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"(?<![\w.])/(?:work|root|home|Users)/[\w.]+|\.\./shared\b", line):
            yield number, f"a path of somebody's machine: {match.group()}"


def links_resolve(path, text):
    if path.endswith(".md"):
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\]\(<?([^)\s>]+)>?[^)]*\)", line):
                name = target.split("#")[0]
                if name and not re.match(r"[a-z]+:", name) and not (ROOT / path).parent.joinpath(name).exists():
                    yield number, f"the link {target} leads nowhere"


def tests_are_built(path, text):
    """A test that no target lists never fails."""
    if path.endswith("_test.cpp"):
        lists = [folder / "CMakeLists.txt" for folder in (ROOT / path).parents if folder.is_relative_to(ROOT)]
        name = re.compile(rf"(?<![\w-]){re.escape(Path(path).name)}(?!\w)")
        if not any(name.search(file.read_text()) for file in lists if file.is_file()):
            yield 1, "no CMakeLists.txt names this test"


RULES = (engine_without_systemc, engine_stands_alone, hw_models_know_only_base, policies_see_the_seam, no_ambient_time_or_chance,
         headers_have_pragma_once, short_lines, short_files, clean_whitespace, nothing_left_to_do, no_machine_paths, links_resolve,
         tests_are_built)


def violations(rule):
    """-> "path:line: message" of every breach. The rules' own folder shows breaches on purpose."""
    found = []
    for path in files():
        if not path.startswith("tests/tidy/"):
            text = (ROOT / path).read_bytes().decode(errors="replace")
            found += [f"{path}:{line}: {message}" for line, message in rule(path, text)]
    return found


def without_a_test():
    """Sources whose mirror in tests/ is missing: for information, since one test may well cover two files."""
    known = set(files())
    sources = [path for path in known if path.endswith(".cpp") and path.startswith(("engine/", "hw_models/", "sim/", "traces/"))]
    return sorted(path for path in sources if f"tests/{path.removesuffix('.cpp')}_test.cpp" not in known)


if __name__ == "__main__":
    breaches = [line for rule in RULES for line in violations(rule)]
    print("\n".join(breaches))
    print(f"{len(breaches)} violations; without a test of their own: {', '.join(without_a_test()) or 'none'}", file=sys.stderr)
    sys.exit(1 if breaches else 0)
