"""House rules that a machine can check. Each rule yields (line, message) for one file; `RULES` names them all.

`python tests/tidy/rules.py` prints every violation.
"""
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP = (".cpp", ".hpp", ".h", ".c", ".cc")
CODE = (*CPP, ".py", ".cmake", "CMakeLists.txt", ".sh")
TEXT = (*CODE, ".md", ".yaml", ".yml", ".json", ".toml", ".j2", ".txt", ".ipynb")
# Real time and real randomness live here alone; benchmarks measure, so they may look at the clock.
REAL_MACHINE = ("engine/host/", "tests/engine/host/", "experiments/benchmarks/")
TESTED = ("engine/", "hw_models/", "sim/", "traces/")
MAX_COLUMNS, MAX_LINES = 140, 300
SKIPPED = {".git", "build", "out", ".venv", ".vitro", "__pycache__", ".pytest_cache", ".hypothesis"}


def files():
    """The project's text files, relative to its root, sorted."""
    return sorted(name for name in all_files() if (name.endswith(TEXT) or name in ("vitro", ".ci/run")) and (ROOT / name).is_file())


def all_files():
    """What git tracks, or everything where there is no git."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True)
        names = listed.stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [os.path.relpath(os.path.join(folder, name), ROOT) for folder, folders, found in os.walk(ROOT) for name in found
                 if not SKIPPED & set(Path(os.path.relpath(folder, ROOT)).parts)]
    return [name for name in names if name]


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line):
            yield number, match.group(1)


def without_comments(text):
    """C++ code with comments, texts and characters blanked out; line numbers stay."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.DOTALL)


def engine_stands_alone(path, text):
    """Of the project's own folders allowed_includes.txt says who may include whom."""
    if path.startswith("engine/") and path.endswith(CPP):
        for number, name in includes(text):
            if re.match(r"systemc|sysc/|tlm|pybind11/|Python\.h", name):
                yield number, f"the engine includes neither SystemC nor Python ({name})"


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
    if path.endswith((*CODE, ".md")) or path in ("vitro", ".ci/run"):
        for number, line in enumerate(text.splitlines(), 1):
            row = path.endswith(".md") and line.lstrip().startswith("|")  # of a table
            if len(line) > MAX_COLUMNS and not row:
                yield number, f"{len(line)} columns (at most {MAX_COLUMNS})"


def short_files(path, text):
    """Blank lines, comments and includes are no lines of code."""
    if path.endswith(CODE):
        comment = "//" if path.endswith(CPP) else "#"
        count = sum(1 for line in map(str.strip, text.splitlines()) if line and not line.startswith((comment, "#include")))
        if count > MAX_LINES and f"{comment} Long because " not in text:
            yield 1, f"{count} lines of code (at most {MAX_LINES}, or a comment `{comment} Long because ...`)"


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


@functools.cache
def known_paths():
    listed = all_files()
    return {*listed, *(str(folder) for name in listed for folder in Path(name).parents), *(name.rpartition(".")[0] for name in listed)}


def named_paths_exist(path, text):
    """Paths in backticks that start at a folder of the root: a file, a folder, or files without their endings. Results cite other trees."""
    if not path.endswith(".md") or path.startswith("docs/results/"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"(?<![\w./-])[\w-]+/[\w./*<>-]*", " ".join(re.findall(r"`([^`]+)`", line))):
            name = name.rstrip("./")
            if "<" in name or not (ROOT / name.split("/")[0]).is_dir() or name.split("/")[0] in ("build", "out"):
                continue
            if name not in known_paths() and not ("*" in name and any(ROOT.glob(name))):
                yield number, f"{name} does not exist"


def mirror(path):
    return ROOT / f"tests/{path.removesuffix('.cpp')}_test.cpp"


@functools.cache
def tested_by(text=None):
    """-> {source: the test that shows something of it}, of the lines of tested_by.txt."""
    found, test = {}, None
    for line in (text if text is not None else (Path(__file__).parent / "tested_by.txt").read_text()).splitlines():
        if line.startswith(" "):
            found |= dict.fromkeys(line.split(), test)
        elif line and not line.startswith("#"):
            test = line.partition(":")[0]
    return found


def tests_are_built(path, text):
    """A test that no target lists never fails."""
    if path.endswith("_test.cpp"):
        lists = [folder / "CMakeLists.txt" for folder in (ROOT / path).parents if folder.is_relative_to(ROOT)]
        name = re.compile(rf"(?<![\w-]){re.escape(Path(path).name)}(?!\w)")
        if not any(name.search(file.read_text()) for file in lists if file.is_file()):
            yield 1, "no CMakeLists.txt names this test"


def has_a_test(path, text):
    """A test of the same name, or a line of tested_by.txt."""
    if path.endswith(".cpp") and path.startswith(TESTED) and not mirror(path).is_file() and path not in tested_by():
        yield 1, f"neither {mirror(path).relative_to(ROOT)} nor a line of tests/tidy/tested_by.txt"


RULES = (engine_stands_alone, no_ambient_time_or_chance, headers_have_pragma_once, short_lines, short_files, clean_whitespace,
         nothing_left_to_do, no_machine_paths, links_resolve, named_paths_exist,
         tests_are_built, has_a_test)


def violations(rule):
    """-> "path:line: message" of every breach. The rules' own folder shows breaches on purpose."""
    found = []
    for path in files():
        if not path.startswith("tests/tidy/"):
            text = (ROOT / path).read_bytes().decode(errors="replace")
            found += [f"{path}:{line}: {message}" for line, message in rule(path, text)]
    return found


if __name__ == "__main__":
    breaches = [line for rule in RULES for line in violations(rule)]
    print("\n".join(breaches))
    print(f"{len(breaches)} violations", file=sys.stderr)
    sys.exit(1 if breaches else 0)
