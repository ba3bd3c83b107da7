"""Sweeps of vitro before its store: DIR/points/00007.json, {"digest", "result" or "error"}."""
import hashlib
import json
from pathlib import Path
from typing import Any

_VERSION = "0.1.0"  # that all of them were written with


def digest(machine: str, resolved: dict[str, Any]) -> str:
    """Of a point, as it was then: file names and no contents, and nothing of the engine."""
    return hashlib.sha256(json.dumps([_VERSION, machine, resolved], sort_keys=True).encode()).hexdigest()[:16]


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
