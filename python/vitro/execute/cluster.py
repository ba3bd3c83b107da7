"""Workers of a Dask cluster: one made here for the time, one that is there, or jobs of SLURM."""
import os
from typing import Any

from ..base.cores import usable_cores
from ..errors import ConfigError, Lost, RunError
from . import remote
from .task import Limits, Outcome, Task

_PIECE = 32 << 20   # bytes of a file sent at a time
_PATIENCE = 60      # seconds for the first worker of an existing cluster


class Cluster:
    """client: a distributed.Client. within: clusters that were made for this and end with it. patience: seconds for the first worker."""

    def __init__(self, client: Any, name: str, within: Any = None, patience: float | None = None) -> None:
        self.client, self.name, self.within = client, name, within
        self._sent: set[Any] = set()
        try:
            patience = _PATIENCE if patience is None else patience
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            self.close()
            raise ConfigError(f"--on: {name} has no worker after {patience:.0f} s (expected at least one)") from None

    def slots(self) -> int:
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
                # pure=False: equal points are still run, since a repeated point is how determinism is checked.
                future = self.client.submit(remote.perform, spec, pure=False)
                self._sent.add(future)
                answer = future.result()
                if "missing" not in answer:
                    return Outcome(answer.get("value"), answer["error"], answer["seconds"])
                self._send(answer["missing"], spec)
        except distributed.KilledWorker as error:
            return Outcome(error=Lost(f"its worker ended ({error.last_worker.address if error.last_worker else 'unknown'})"))
        except (distributed.CancelledError, OSError, TimeoutError, distributed.comm.CommClosedError) as error:
            if self.client.status == "running" and self.client.scheduler is not None and _answers(self.client):
                return Outcome(error=Lost(f"its worker ended ({error})"))
            raise self._gone() from None

    def _send(self, missing, spec):
        """To every worker, since any of them may get the task."""
        paths = {sha: path for path, sha in [*spec["files"].values(), *spec["plugins"].items()]}
        for address in list(self._workers()):
            for sha, ending in missing.items():
                token = remote.token()
                with open(paths[sha], "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    while True:
                        data = file.read(_PIECE)
                        last = file.tell() >= size
                        self.client.submit(remote.take_piece, sha, ending, token, data, last, workers=[address], pure=False).result()
                        if last:
                            break

    def cancel(self) -> None:
        self.client.cancel(list(self._sent), force=True)

    def close(self) -> None:
        self.client.close()
        if self.within is not None:
            self.within.close()


def _answers(client):
    try:
        client.scheduler_info(n_workers=0)
        client.sync(client.scheduler.identity)
        return True
    except Exception:
        return False


def local_cluster(workers: int | None) -> Cluster:
    """Workers on this machine, a process for each."""
    from distributed import Client, LocalCluster
    with without_retries():
        cluster = LocalCluster(n_workers=workers or usable_cores(), threads_per_worker=1, processes=True, memory_limit=0,
                               dashboard_address=None)
    return Cluster(Client(cluster), "the local cluster", cluster)


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
