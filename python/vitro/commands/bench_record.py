"""Benchmarks that are kept, and what has become slower since: `vitro bench --record FILE` and `--against FILE`.

Rates of a shared machine change from minute to minute, so two builds are best run by turns, round by round: the ratio of each round then
compares what had the same neighbours. That needs the other build, unchanged where its record says that it lies.
"""
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from ..base import fingerprints, schemas
from ..base.version import __version__
from ..base.whole_files import put
from ..errors import ConfigError, RunError
from .bench import KINDS

CONFIDENCE = 0.95
_SCHEMA, _VERSION = "vitro.bench_record", 1
_LESS_IS_BETTER = ("events", "calls", "posts", "MiB")
_COUNTED = ("events", "calls", "posts")  # equal runs count the same, so any difference is one

Rows = list[dict[str, Any]]
Round = Callable[[str], Rows]


def rounds_of(kinds: list[str], count: int, one: Round) -> dict[str, dict[str, Any]]:
    """-> {row: {"unit", "values"}} of `count` rounds, each with all kinds."""
    found: dict[str, dict[str, Any]] = {}
    for _ in range(count):
        for kind in kinds:
            _add(found, one(kind))
    return found


def written(path: Path, kinds: list[str], smoke: bool, rows: dict[str, dict[str, Any]]) -> None:
    """Writes the values of each round, with what was measured and where."""
    revision, changed = fingerprints.revision()
    put(path, json.dumps({"schema": f"{_SCHEMA}/{_VERSION}", "vitro": __version__, "revision": revision, "changed": changed,
                          "engine": {"file": os.path.abspath(fingerprints.engine_file()), "sha256": fingerprints.engine()},
                          "host": fingerprints.host(), "kinds": kinds, "smoke": smoke, "rows": rows}, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """A record. Raises ConfigError for any other file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--against: {path}: can not be read ({error}; expected a file that vitro bench --record wrote)") from None
    checked = schemas.checked(data, _SCHEMA, _VERSION, f"--against: {path}", "a record of vitro bench")
    rows = checked.get("rows")
    if not isinstance(rows, dict) or not all(_is_row(row) for row in rows.values()) or not isinstance(checked.get("engine"), dict):
        raise ConfigError(f"--against: {path}: rows: is not {{name: {{unit, values: [numbers above 0]}}}}")
    kinds = checked.get("kinds")
    if not isinstance(kinds, list) or not kinds or not all(kind in KINDS for kind in kinds):
        raise ConfigError(f"--against: {path}: kinds: is no list of kinds (expected some of {', '.join(KINDS)})")
    return checked


def _is_row(row):
    return (isinstance(row, dict) and isinstance(row.get("unit"), str) and isinstance(row.get("values"), list) and row["values"] != []
            and all(isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf for value in row["values"]))


def is_of_this_build(record: dict[str, Any]) -> bool:
    engine = record["engine"]
    return engine.get("file") == os.path.abspath(fingerprints.engine_file()) and engine.get("sha256") == fingerprints.engine()


def other_build(record: dict[str, Any]) -> Optional[Path]:
    """-> the folder to import the recorded build from; None where its extension module is gone, has changed, or is the one of this run."""
    file = Path(str(record["engine"].get("file")))
    if not file.is_file() or os.path.samefile(file, fingerprints.engine_file()):
        return None
    return file.parents[1] if fingerprints.of_file(file) == record["engine"].get("sha256") else None


def of_build(folder: Path, smoke: bool) -> Round:
    """Rows of another build: its own command, in a process of its own."""
    def one(kind):
        command = [sys.executable, "-m", "vitro", "bench", kind, "--json", *(["--smoke"] if smoke else [])]
        run = subprocess.run(command, cwd=folder.parent, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True)
        if run.returncode:
            raise RunError(f"bench: the build in {folder} failed: {run.stderr.strip()[-500:]}")
        return json.loads(run.stdout)["rows"]
    return one


def by_turns(kinds: list[str], count: int, now: Round, before: Round) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """-> (rows now, rows before), of `count` rounds in which each kind runs in both builds; which comes first changes by round."""
    found: tuple[dict, dict] = ({}, {})
    for turn in range(count):
        for kind in kinds:
            for side in ((0, 1), (1, 0))[turn % 2]:
                _add(found[side], (now, before)[side](kind))
    return found


def _add(found, rows):
    for row in rows:
        found.setdefault(row["name"], {"unit": row["unit"], "values": []})["values"].append(row["value"])


@dataclass(frozen=True)
class Compared:
    name: str
    unit: str
    before: float          # median
    now: float
    ratio: float           # above 1: better now. Geometric mean
    low: Optional[float]   # its interval; None where there is one round, or nothing varies
    high: Optional[float]
    verdict: str           # slower, faster, or as before


def compared(now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]], paired: bool) -> list[Compared]:
    """Rows that both have. Of ratios by rounds where rounds are pairs, else of all values (Welch), in logarithms, by Student's
    distribution."""
    return [_compared(name, row["unit"], before[name]["values"], row["values"], paired) for name, row in now.items()
            if name in before and before[name]["unit"] == row["unit"]]


def _compared(name, unit, before, now, paired):
    from statistics import mean, median
    sign = -1 if unit in _LESS_IS_BETTER else 1
    old, new = ([sign * math.log(value) for value in values] for values in (before, now))
    paired = paired and len(old) == len(new)
    middle = mean(new) - mean(old)
    half = _half_of_pairs([b - a for a, b in zip(old, new)]) if paired else _half_of_groups(old, new)
    low, high = (None, None) if half is None else (middle - half, middle + half)
    if half is None:  # one value each: only what is counted can be told apart
        verdict = "as before" if middle == 0 or unit not in _COUNTED else "faster" if middle > 0 else "slower"
    else:
        verdict = "slower" if high < 0 else "faster" if low > 0 else "as before"
    ratio, low, high = (None if value is None else math.exp(value) for value in (middle, low, high))
    return Compared(name, unit, median(before), median(now), ratio, low, high, verdict)


def _half_of_pairs(differences):
    from statistics import stdev
    count = len(differences)
    if count < 2 or len(set(differences)) == 1:
        return None
    return _student(count - 1) * stdev(differences) / math.sqrt(count)


def _half_of_groups(old, new):
    from statistics import variance
    if len(old) < 2 or len(new) < 2 or len(set(old)) == len(set(new)) == 1:
        return None
    a, b = variance(old) / len(old), variance(new) / len(new)
    freedom = (a + b) ** 2 / (a ** 2 / (len(old) - 1) + b ** 2 / (len(new) - 1))
    return _student(freedom) * math.sqrt(a + b)


def _student(freedom):
    from scipy import stats
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
