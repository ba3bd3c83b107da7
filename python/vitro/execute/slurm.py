"""Workers as jobs of SLURM, as a file describes them, by dask-jobqueue.

    jobs: 4                 # how many
    cores: 8                # of a job, so many runs at a time
    memory: 16 GB
    walltime: "02:00:00"
    queue: normal           # and what else dask-jobqueue's SLURMCluster takes: account, interface, job_extra_directives, ...
    patience: 600           # seconds until the first job has to have started
"""
import json
import re
from typing import Any

from ..base import native, no_code
from ..base.inputs import existing
from ..base.origins import Origins
from ..base.trees import load_yaml
from ..errors import ConfigError
from .cluster import Cluster, without_retries

_OWN: dict[str, Any] = {"jobs": int, "patience": (int, float)}
_NEEDED: dict[str, Any] = {"cores": int, "memory": str}
_MORE = ("queue", "account", "walltime", "interface", "python", "local_directory", "log_directory", "shared_temp_directory", "job_name",
         "job_cpu", "job_mem", "job_extra_directives", "job_directives_skip", "job_script_prologue", "worker_extra_args", "death_timeout",
         "processes", "scheduler_options")

# What runs before, instead of or around the workers.
_CODE = ("python", "job_extra_directives", "job_script_prologue", "worker_extra_args", "scheduler_options")

# Nothing is quoted where dask-jobqueue writes a job's command line and its directives.
_PLAIN = re.compile(r"[\w.:/+,@%=-]+( ?[kKMGT]i?B)?")


def settings(path: str) -> dict[str, Any]:
    """Reads FILE of `--on slurm:FILE`. Raises ConfigError."""
    tree = load_yaml(existing(path))
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}:1: is not a map (expected {', '.join([*_NEEDED, *_OWN])} and the like)")
    for key in tree:
        if key not in (*_OWN, *_NEEDED, *_MORE):
            raise ConfigError(f"{path}: {key}: unknown key (expected one of {', '.join([*_OWN, *_NEEDED, *_MORE])})")
    if code := [key for key in tree if key in _CODE or (key != "job_directives_skip" and not _PLAIN.fullmatch(str(tree[key])))]:
        no_code.refuse(f"{Origins(native.call('file_origins', path)).at(code[0])}: {code[0]}", json.dumps(tree[code[0]]))
    for key, kind in {**_OWN, **_NEEDED}.items():
        if key in _NEEDED and key not in tree:
            raise ConfigError(f"{path}: {key}: is missing (such as {'cores: 8' if key == 'cores' else 'memory: 16 GB'})")
        value = tree.get(key)
        if key in tree and (not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, (int, float)) and value <= 0)):
            raise ConfigError(f"{path}: {key}: {value!r} (expected {'a text such as 16 GB' if kind is str else 'a number above 0'})")
    return tree


def slurm_cluster(path: str) -> Cluster:
    """Starts the jobs and waits for the first one."""
    tree = settings(path)
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise ConfigError(f"--on slurm: needs the package dask-jobqueue, which can not be imported ({error})") from None
    from distributed import Client
    jobs, patience = tree.pop("jobs", 1), tree.pop("patience", 600)
    tree.setdefault("processes", tree["cores"])  # a worker that ends takes one run with it
    try:
        with without_retries():
            cluster = SLURMCluster(**tree)
        cluster.scale(jobs=jobs)
        return Cluster(Client(cluster), f"SLURM ({path})", cluster, patience)
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        raise ConfigError(f"--on slurm:{path}: {error}") from None
