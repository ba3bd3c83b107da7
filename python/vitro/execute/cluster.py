"""Workers of a Dask cluster: one made here for the time, one that is there, or jobs of SLURM."""
import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from ..base.cores import usable_cores
from ..errors import ConfigError, Lost, RunError
from . import remote
from .task import Limits, Outcome, Task

_PIECE = 32 << 20   # bytes of a file sent at a time
_PATIENCE = 60      # seconds for the first worker of an existing cluster, and for another one when all of them ended
_LOOK = 5           # seconds between two looks at the workers while a call runs on one
# Of a cluster that is made here: nobody looks at its dashboard, and what is measured for that is measured on the cores that runs need. Runs
# have the memory allocator's own limits, as with the local executor.
_LEAN = {"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "5s",
         "distributed.admin.tick.interval": "1s", "distributed.nanny.pre-spawn-environ": {}}


class NotSent(Exception):
    """A file that a worker lacks can not be sent to it."""


class Cluster:
    """client: a distributed.Client. within: clusters that were made for this and end with it. patience: seconds without any worker, at the
    beginning and later."""

    def __init__(self, client: Any, name: str, within: Any = None, patience: float | None = None) -> None:
        self.client, self.name, self.within = client, name, within
        self._patience = _PATIENCE if patience is None else patience
        self._sent: set[Any] = set()
        self._sending: dict[str, threading.Lock] = {}   # by the address of a worker
        self._empty_since: float | None = None          # the first of the looks at which there was no worker
        try:
            client.wait_for_workers(1, timeout=self._patience)
        except TimeoutError:
            self.close()
            raise ConfigError(f"--on: {name} has no worker after {self._patience:.0f} s (expected at least one)") from None

    def slots(self) -> int:
        """At least one, so that a call waits for a worker where there is none just now."""
        return max(1, sum(worker["nthreads"] for worker in self._workers().values()))

    def _workers(self):
        """By address, with what the scheduler knows of each."""
        workers = self.client.scheduler_info(n_workers=-1).get("workers")
        if workers is None:  # as it answers when there is no connection any more
            raise self._gone()
        return workers

    def _gone(self):
        return RunError(f"--on: the scheduler of {self.name} went away; what has finished stays (go on with --resume)")

    def perform(self, task: Task, limits: Limits) -> Outcome:
        import distributed
        spec = remote.spec_of(task, limits)
        try:
            while True:
                answer = self._result(remote.perform, spec)
                if "missing" not in answer:
                    return Outcome(answer.get("value"), answer["error"], answer["seconds"])
                self._send(answer["at"], spec)
        except NotSent as error:
            return Outcome(error=RunError(str(error)))
        except distributed.KilledWorker as error:
            return Outcome(error=Lost(f"its worker ended ({error.last_worker.address if error.last_worker else 'unknown'})"))
        except (distributed.CancelledError, OSError, TimeoutError, distributed.comm.CommClosedError) as error:
            if self.client.status == "running" and self.client.scheduler is not None and _answers(self.client):
                return Outcome(error=Lost(f"its worker ended ({error})"))
            raise self._gone() from None

    def _result(self, function: Callable[..., Any], *args: Any, at: str | None = None) -> Any:
        """Of a call on a worker, on the one at the address `at` if that is given. Raises Lost where that one left, and RunError where no
        worker has been there for the patience."""
        # pure=False: equal points are still run, since a repeated point is how determinism is checked.
        future = self.client.submit(function, *args, workers=None if at is None else [at], pure=False)
        self._sent.add(future)
        try:
            while True:
                try:
                    return future.result(timeout=min(_LOOK, self._patience))
                except TimeoutError:
                    if future.status == "error":  # it ended just now, or the time was out in the call itself
                        return future.result()
                self._look(at)
        finally:
            self._sent.discard(future)

    def _look(self, at):
        workers, now = self._workers(), time.monotonic()
        if workers:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        elif now - self._empty_since >= self._patience:
            raise RunError(f"--on: all workers of {self.name} ended, and none came for {self._patience:g} s; what has finished stays "
                           "(go on with --resume)")
        if at is not None and at not in workers:
            raise Lost(f"its worker ended ({at})")

    def _send(self, at, spec):
        """The files that the worker at this address lacks. One that leaves meanwhile needs none: the call goes to another one."""
        import distributed
        paths = {sha: path for path, sha in [*spec["files"].values(), *spec["plugins"].items()]}
        with self._sending.setdefault(at, threading.Lock()):
            try:
                for sha, ending in self._result(remote.missing, spec, at=at).items():
                    self._send_file(at, paths[sha], sha, ending)
            except (Lost, distributed.KilledWorker):
                pass

    def _send_file(self, at, path, sha, ending):
        token, begin, last = remote.token(), 0, False
        try:
            file = open(path, "rb")
        except OSError as error:
            raise NotSent(f"{path}: can not be sent to a worker ({error.strerror})") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            while not last:
                data = file.read(_PIECE)
                last = not data or file.tell() >= size
                whole = self._result(remote.take_piece, sha, ending, token, begin, data, last, at=at)
                begin += len(data)
        if not whole:
            raise NotSent(f"{path}: did not arrive whole at the worker {at} (expected the SHA-256 {sha[:12]}..., which it had when the run "
                          "was prepared)")

    def cancel(self) -> None:
        from distributed.client import ClosedClientError
        with contextlib.suppress(ClosedClientError):  # it has given the scheduler up, and nobody is left to be told
            self.client.cancel(list(self._sent), force=True)

    def close(self) -> None:
        try:
            self.client.close()
        finally:
            if self.within is not None:
                self.within.close()


def _answers(client):
    try:
        client.scheduler_info(n_workers=0)
        client.sync(client.scheduler.identity)
        return True
    except Exception:
        return False


def local_cluster(workers: int | None, patience: float | None = None) -> Cluster:
    """Workers on this machine, a process for each."""
    import dask
    from distributed import Client, LocalCluster
    with without_retries(), dask.config.set(_LEAN):
        cluster = LocalCluster(n_workers=workers or usable_cores(), threads_per_worker=1, processes=True, memory_limit=0,
                               dashboard_address=None)
    return Cluster(Client(cluster), "the local cluster", cluster, patience)


def existing(address: str) -> Cluster:
    from distributed import Client
    try:
        client = Client(address, timeout=5)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"--on: no scheduler answers at {address} ({error})") from None
    return Cluster(client, address)


def without_retries() -> Any:
    """For schedulers that are made within: a point whose worker is lost comes back at once, and is counted here."""
    import dask
    return dask.config.set({"distributed.scheduler.allowed-failures": 0})
