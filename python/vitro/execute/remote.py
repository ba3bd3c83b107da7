"""A task on a worker elsewhere: its files by content, its engine compared, its run in a process of its own.

What a worker gets and gives is plain data, and this module is all of vitro that it imports for that.
"""
import os
import time
import uuid
from pathlib import Path
from typing import Any

from ..base import fingerprints, no_code, process
from ..base.cache import cache_folder
from ..base.whole_files import sync_folder
from ..errors import RunError
from .local import perform_here
from .task import Limits, Task

_CHILDREN = process.Group()  # of this worker
_UNFINISHED = 24 * 3600  # seconds after the last piece of a file, when it will not be finished any more


def spec_of(task: Task, limits: Limits) -> dict[str, Any]:
    """What is sent. Plug-ins of this process's environment are files, too."""
    plugins = [os.path.abspath(path) for path in fingerprints.plugins_of_environment()]
    files = {path: (os.path.abspath(path), sha) for path, sha in task.files.items()}
    return {"function": task.function, "args": list(task.args), "attached": list(task.attached), "exclusive": task.exclusive,
            "files": files, "plugins": {path: fingerprints.of_file(path) for path in plugins}, "engine": fingerprints.engine(),
            "seconds": limits.seconds, "no_code": no_code.refused()}


def perform(spec: dict[str, Any]) -> dict[str, Any]:
    """On a worker. -> {"value", "error", "seconds"}, or {"missing": {SHA-256: ending}, "at": its address}: send those there and ask
    again."""
    here = fingerprints.engine()
    if here != spec["engine"]:
        return {"error": RunError(f"this worker's extension module is another one ({here[:12]}, expected {spec['engine'][:12]}): its "
                                  "results would not be those of this study (install the same build there)"), "seconds": 0.0}
    if lacking := missing(spec):
        import distributed
        return {"missing": lacking, "at": distributed.get_worker().address}
    moved = {name: there for name, (path, sha) in spec["files"].items() if (there := _lying(path, sha)) != name}
    task = Task(spec["function"], tuple(_with_paths(arg, moved) for arg in spec["args"]), tuple(spec["attached"]),
                exclusive=spec["exclusive"])
    # Also where there are none: those of this worker's own environment are not of the study.
    env = {"VITRO_PLUGINS": os.pathsep.join(_lying(path, sha) or "" for path, sha in spec["plugins"].items())}
    env |= {no_code.VARIABLE: "1"} if spec["no_code"] else {}
    outcome = perform_here(task, Limits(spec["seconds"]), _CHILDREN, env)
    return {"value": outcome.value, "error": outcome.error, "seconds": outcome.seconds}


def missing(spec: dict[str, Any]) -> dict[str, str]:
    """On a worker. -> {SHA-256: ending} of the files that it lacks."""
    return {sha: Path(path).suffix for path, sha in [*spec["files"].values(), *spec["plugins"].items()] if _lying(path, sha) is None}


def _lying(path, sha):
    """Where a file of this content lies on this machine: in the folder of those that were sent, or under its own name."""
    for place in (str(_kept(sha, Path(path).suffix)), path):
        if os.path.isfile(place) and fingerprints.of_file(place) == sha:
            return place
    return None


def _kept(sha, ending):
    return cache_folder() / "files" / f"{sha}{ending}"


def _with_paths(arg, moved):
    """An argument in JSON, with the paths of files as they are here. A path stands there as a whole text."""
    import json
    if isinstance(arg, str):
        for name, there in moved.items():
            arg = there if arg == name else arg.replace(json.dumps(name), json.dumps(there))
    return arg


def take_piece(sha: str, ending: str, token: str, begin: int, data: bytes, last: bool) -> bool:
    """On a worker: a piece of a file that it lacks, from byte `begin`; a piece that comes twice counts once. At the last one the file is
    compared and put in place. -> whether it has the content that it is to have; True before the last one."""
    target = _kept(sha, ending)
    if not begin:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(target.parent)
    unfinished = target.with_name(f".{sha}.{token}.part")
    with open(unfinished, "ab") as file:
        file.truncate(begin)
        file.write(data)
        if last:
            file.flush()
            os.fsync(file.fileno())
    if last:
        if fingerprints.of_file(unfinished) != sha:
            unfinished.unlink()
            return False
        unfinished.replace(target)
        for folder in (target.parent, target.parent.parent):
            sync_folder(folder)
    return True


def _remove_unfinished(folder):
    """What a sending left that was interrupted. One that still runs has a piece of today."""
    for path in folder.glob(".*.part"):
        try:
            if path.stat().st_mtime < time.time() - _UNFINISHED:
                path.unlink()
        except FileNotFoundError:  # another worker of this machine was first
            pass


def token() -> str:
    """Names one sending, so that two of them do not write into one file."""
    return uuid.uuid4().hex[:12]
