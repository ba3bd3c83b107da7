"""What a result depends on, by content: files, the extension module, and this machine."""
import functools
import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from . import native
from .cores import usable_cores

_READING = ("device", "model", "engine", "workload")  # parts of an experiment that may name files
OUTPUTS = ("engine.record", "workload.save_kv")        # files that a run writes
# Texts that may read like the name of a file and are none.
_TEXTS = {"prompt", "continue", "keep_as", "name", "description", "source", "experiment", "label"}
_known: dict[tuple[int, ...], str] = {}  # by what stat says: a file that was written again has another time of change


def of_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content, in hex. A file that has not changed is read once in a process."""
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        key = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if key not in _known:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]


def of_tree(tree: Any) -> str:
    """SHA-256 of nested maps, whatever the order of their keys."""
    return hashlib.sha256(json_text(tree).encode()).hexdigest()


def json_text(tree: Any) -> str:
    import json
    return json.dumps(tree, sort_keys=True, ensure_ascii=False)


def engine() -> str:
    """Of the extension module that runs experiments."""
    return of_file(engine_file())


def engine_file() -> str:
    return native.module().__file__ or ""


def revision() -> tuple[str | None, bool]:
    """-> (git revision of the checkout that has the extension module, whether tracked files differ from it); (None, False) outside one."""
    folder = Path(engine_file()).absolute().parent
    try:
        said = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(["git", "-C", folder, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True,
                                 check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None, False
    return said, bool(changed)


@functools.cache
def host() -> dict[str, Any]:
    """This machine, as far as a measurement on it depends on that: name, processor, cores that may be used, memory, kernel."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    models = sorted({line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part"))})
    return {"name": platform.node(), "cpu": ", ".join(models) or platform.processor() or platform.machine(), "cores": usable_cores(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "kernel": platform.release()}


def files_read(resolved: dict[str, Any]) -> dict[str, str]:
    """-> {path: SHA-256} of what a run of this resolved experiment reads: existing files that device, model, engine or workload name."""
    parts = {key: resolved[key] for key in _READING if key in resolved}
    return {path: of_file(path) for path in _named_files(parts)}


def _named_files(tree):
    found = []
    _find_files(tree, "", found)
    return found


def _find_files(tree, at, found):
    """Adds those of a map or a list to `found`. at: its dotted name, with a dot behind."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if isinstance(value, str):
                if key not in _TEXTS and f"{at}{key}" not in OUTPUTS and _names_file(value):
                    found.append(value)
            elif isinstance(value, (dict, list)) and key not in _TEXTS and f"{at}{key}" not in OUTPUTS:
                _find_files(value, f"{at}{key}.", found)
    else:
        for value in tree:
            if isinstance(value, (dict, list)):
                _find_files(value, at, found)
            elif isinstance(value, str) and _names_file(value):
                found.append(value)


def _names_file(text):
    return ("/" in text or "." in text) and len(text) < 4096 and "\0" not in text and os.path.isfile(text)


def plugins_of_environment() -> list[str]:
    """Files that every run loads."""
    return [path for path in os.environ.get("VITRO_PLUGINS", "").split(os.pathsep) if path and os.path.isfile(path)]
