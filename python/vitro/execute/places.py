"""The places that `--on` names."""
import contextlib
from collections.abc import Iterator
from typing import Any

from ..errors import ConfigError
from .local import Local

FORMS = "local, dask, dask:ADDRESS or slurm:FILE"


def check(on: str, workers: int | None = None, *, option: str = "--workers") -> None:
    """Raises ConfigError for what names no place, before anything is made. option: how `workers` is called by who asks."""
    kind, colon, rest = on.partition(":")
    if kind not in ("local", "dask", "slurm") or (kind == "local" and colon) or (kind == "slurm" or colon) and not rest:
        raise ConfigError(f"--on: {on!r} (expected {FORMS})")
    if workers is not None and (kind == "slurm" or rest):
        raise ConfigError(f"{option}: can not be combined with --on {on}, whose workers are given (expected one of the two)")
    if kind == "slurm":
        from .slurm import settings
        settings(rest)


@contextlib.contextmanager
def opened(on: str = "local", *, workers: int | None = None) -> Iterator[Any]:
    """A Place for the time of a `with`. workers: tasks at a time, for places on this machine."""
    check(on, workers)
    kind, _, rest = on.partition(":")
    if kind == "local":
        with contextlib.closing(Local(workers)) as here:
            yield here
        return
    try:
        from . import cluster
        import distributed  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"--on {kind}: needs the package dask[distributed], which can not be imported ({error})") from None
    if kind == "slurm":
        from .slurm import slurm_cluster
        place = slurm_cluster(rest)
    else:
        place = cluster.existing(rest) if rest else cluster.local_cluster(workers)
    try:
        yield place
    finally:
        place.close()
