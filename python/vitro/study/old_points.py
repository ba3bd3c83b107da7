"""Sweeps of vitro before its store: DIR/points/00007.json, {"digest", "result" or "error"}."""
import hashlib
import json
from pathlib import Path
from typing import Any

from ..base import whole_files
from ..errors import ConfigError

_VERSION = "0.1.0"  # that all of them were written with


def digest(machine: str, resolved: dict[str, Any]) -> str:
    """Of a point, as it was then: file names and no contents, and nothing of the engine."""
    return hashlib.sha256(json.dumps([_VERSION, machine, resolved], sort_keys=True).encode()).hexdigest()[:16]


def check(folder: Path) -> None:
    """Raises ConfigError where there are such points in DIR that nobody has decided about."""
    if any((folder / "points").glob("*.json")) and not _mark(folder).exists():
        raise ConfigError(f"{folder / 'points'}: points of vitro before its store, which do not tell the engine and the model that they "
                          "come from (expected --adopt beside --resume, which takes those of unchanged experiments as results of today's "
                          "engine and files; or another folder)")


def decided(folder: Path) -> None:
    """Writes down that they were taken, or left behind. Until then a run that was ended has taken some of them at most."""
    if any((folder / "points").glob("*.json")):
        whole_files.put(_mark(folder), "")


def _mark(folder):
    return folder / "store/adopted"


def found(folder: Path) -> dict[str, dict[str, Any]]:
    """-> {digest: result} of the points that finished."""
    results = {}
    for path in sorted((folder / "points").glob("*.json")):
        try:
            kept = json.loads(path.read_text())
            if "result" in kept:
                results[kept["digest"]] = kept["result"]
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
    return results
