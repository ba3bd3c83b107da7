"""A task on a worker elsewhere: its files by content, its engine compared, its run in a process of its own.

What a worker gets and gives is plain data, and this module is all of vitro that it imports for that.
"""
import os
import uuid
from pathlib import Path
from typing import Any

from ..base import fingerprints, process
from ..base.cache import cache_folder
from ..errors import RunError
from .local import perform_here
from .task import Limits, Task


def spec_of(task: Task, limits: Limits) -> dict[str, Any]:
    """What is sent. Plug-ins of this process's environment are files, too."""
    plugins = [os.path.abspath(path) for path in fingerprints.plugins_of_environment()]
    files = {path: (os.path.abspath(path), sha) for path, sha in task.files.items()}
    return {"function": task.function, "args": list(task.args), "attached": list(task.attached), "exclusive": task.exclusive,
            "files": files, "plugins": {path: fingerprints.of_file(path) for path in plugins}, "engine": fingerprints.engine(),
            "module": os.environ.get("VITRO_NATIVE_MODULE"), "seconds": limits.seconds}


def perform(spec: dict[str, Any]) -> dict[str, Any]:
    """On a worker. -> {"value", "seconds"}, {"error": exception, "seconds"}, or {"missing": {SHA-256: ending}}: send
    those and ask again."""
    here = fingerprints.engine()
    if here != spec["engine"]:
        return {"error": RunError(f"this worker's extension module is another one ({here[:12]}, expected {spec['engine'][:12]}): its "
                                  "results would not be those of this study (install the same build there)"), "seconds": 0.0}
    found = {name: _lying(path, sha) for name, (path, sha) in spec["files"].items()}
    plugins = [(path, sha, _lying(path, sha)) for path, sha in spec["plugins"].items()]
    missing = {sha: Path(path).suffix for name, (path, sha) in spec["files"].items() if found[name] is None}
    missing |= {sha: Path(path).suffix for path, sha, there in plugins if there is None}
    if missing:
        return {"missing": missing}
    moved = {name: there for name, there in found.items() if there != name}
    task = Task(spec["function"], tuple(_with_paths(arg, moved) for arg in spec["args"]), tuple(spec["attached"]),
                exclusive=spec["exclusive"])
    env = {"VITRO_PLUGINS": os.pathsep.join(there for _, _, there in plugins)} if plugins else None
    outcome = perform_here(task, Limits(spec["seconds"]), process.Group(), env)
    return {"value": outcome.value, "error": outcome.error, "seconds": outcome.seconds}


def _lying(path, sha):
    """Where a file of this content lies on this machine: in the folder of those that were sent, or under its own name."""
    kept = _kept(sha, Path(path).suffix)
    if kept.is_file():
        return str(kept)
    return path if os.path.isfile(path) and fingerprints.of_file(path) == sha else None


def _kept(sha, ending):
    return cache_folder() / "files" / f"{sha}{ending}"


def _with_paths(arg, moved):
    """An argument in JSON, with the paths of files as they are here. A path stands there as a whole text."""
    import json
    if isinstance(arg, str):
        for name, there in moved.items():
            arg = there if arg == name else arg.replace(json.dumps(name), json.dumps(there))
    return arg


def take_piece(sha: str, ending: str, token: str, data: bytes, last: bool) -> None:
    """On a worker: a piece of a file that it lacks; at the last one the file is compared and put in place."""
    target = _kept(sha, ending)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{sha}.{token}.part")
    with open(unfinished, "ab") as file:
        file.write(data)
    if last:
        if fingerprints.of_file(unfinished) != sha:
            unfinished.unlink()
            raise RunError(f"the file {sha[:12]}{ending} did not arrive whole")
        unfinished.replace(target)


def token() -> str:
    """Names one sending, so that two of them do not write into one file."""
    return uuid.uuid4().hex[:12]
