"""Sweeps on Dask clusters: the same table, files by content, lost workers, schedulers that go away."""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas
import pytest
import vitro
from conftest import FAKES, ROOT
from vitro.base import fingerprints
from vitro.execute import cluster
from vitro.execute.executor import execute
from vitro.execute.task import Limits, Task
from vitro.study import store

SWEEP = """
experiment: swept
machine: sim
workload: {output_tokens: 3}
fake: {log: %s}
sweep: {memory.budget: [4 MiB, 6 MiB], seed: [1, 2]}
"""


def equal(one, other):
    drop = ["wall_s", "identity", "repeat"]
    pandas.testing.assert_frame_equal(one.drop(columns=drop, errors="ignore"), other.drop(columns=drop, errors="ignore"))


class Scheduler:
    """A scheduler and workers as processes of their own, in folders of their own."""

    def __init__(self, folder, workers=1, before=(), **env):
        self.folder, self.before = folder, list(before)
        self.env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(FAKES)]), "DASK_LOGGING__DISTRIBUTED": "error",
                                 "VITRO_CACHE": str(folder / "worker-cache"), "DASK_DISTRIBUTED__DASHBOARD__LINK": "",
                                 "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"} | env
        file = folder / "scheduler.json"
        self.process = self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
        while not file.exists() or not file.read_text().strip().endswith("}"):
            assert self.process.poll() is None
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]
        self.workers = [self.worker() for _ in range(workers)]

    def worker(self):
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1",
                           before=self.before)

    def _start(self, kind, *words, before=()):
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / "log", "a") as log:
            return subprocess.Popen([*before, sys.executable, "-m", "distributed.cli.dask_" + kind, *map(str, words)], cwd=self.folder,
                                    env=self.env, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.workers, self.process]:
            process.kill()
            process.wait()


def test_a_local_cluster_gives_the_same_table(fake, tmp_path):
    path = fake.write(SWEEP % (tmp_path / "runs.log"))
    answer = fake("sweep", path, "--out", "o", "--on", "dask", "--workers", "2")
    assert answer.code == 0, answer.err
    equal(pandas.read_parquet(tmp_path / "o/results.parquet"), vitro.sweep(path, out=tmp_path / "p"))


@pytest.mark.all
def test_a_model_that_a_worker_lacks_is_sent_to_it(native, tmp_path):
    """Its worker stands elsewhere, and where the model lies it sees another file."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no name spaces for users here")
    model = tmp_path / "m.gguf"
    shutil.copy(ROOT / "configs/models/embedded/stories-reglu-3m.q4_0.gguf", model)
    (tmp_path / "other.gguf").write_text("another model")
    path = native.write("experiment: x\nmachine: host\nmodel: {gguf: m.gguf}\nworkload: {prompt: hi, output_tokens: 2}\n"
                        "sweep: {seed: [1, 2]}\n")
    before = ["unshare", "-rm", "sh", "-c", f'mount --bind {tmp_path}/other.gguf {model} && exec "$@"', "sh"]
    with Scheduler(tmp_path / "elsewhere", before=before) as there:
        frame = vitro.sweep(path, on=f"dask:{there.address}")
    assert list(frame["status"]) == ["ok"] * 2, list(frame["error"])
    kept = tmp_path / f"elsewhere/worker-cache/files/{fingerprints.of_file(model)}.gguf"
    assert kept.read_bytes() == model.read_bytes()
    equal(frame[["point", "output_tokens"]], vitro.sweep(path)[["point", "output_tokens"]])


def test_a_worker_with_another_engine_is_named(fake, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(FAKES / "fake_vitro.py", other / "fake_vitro.py")
    with open(other / "fake_vitro.py", "a") as file:
        file.write("# another build\n")
    (tmp_path / "w").mkdir()
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(other)]), "VITRO_NATIVE_MODULE": "fake_vitro"}
    with Scheduler(tmp_path / "w", **env) as there:
        frame = vitro.sweep(SWEEP % (tmp_path / "runs.log"), on=f"dask:{there.address}")
    assert (frame["status"] == "failed").all() and frame["error"].str.contains("extension module is another one").all()


@pytest.mark.all
def test_a_lost_worker_loses_one_try_of_one_point(fake, tmp_path):
    text = (SWEEP % (tmp_path / "runs.log")).replace("runs.log}", "runs.log, sleep: 1}")
    (tmp_path / "w").mkdir()
    with Scheduler(tmp_path / "w", workers=2, VITRO_NATIVE_MODULE="fake_vitro") as there:
        def kill():
            while not (tmp_path / "runs.log").exists():
                time.sleep(0.02)
            there.workers[0].send_signal(signal.SIGKILL)
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        vitro.sweep(text, out=tmp_path / "o", on=f"dask:{there.address}")
        thread.join()
    rows = store.rows(tmp_path / "o")
    assert len(rows) == 4 and sorted(rows["tries"]) in ([1, 1, 1, 2], [1, 1, 1, 1])
    assert len(Path(tmp_path / "runs.log").read_text().split()) <= 5


@pytest.mark.all
def test_a_scheduler_that_goes_away_is_named_and_nothing_is_lost(fake, tmp_path):
    text = (SWEEP % (tmp_path / "runs.log")).replace("runs.log}", "runs.log, sleep: 1}")
    (tmp_path / "w").mkdir()
    with Scheduler(tmp_path / "w", VITRO_NATIVE_MODULE="fake_vitro") as there:
        def kill():
            while not list((tmp_path / "o/store/parts").glob("[!.]*")):
                time.sleep(0.02)
            there.process.kill()
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        with pytest.raises(vitro.RunError, match=f"the scheduler of {there.address} went away.*--resume"):
            vitro.sweep(text, out=tmp_path / "o", on=f"dask:{there.address}")
        thread.join()
    assert 1 <= len(store.rows(tmp_path / "o")) < 4
    vitro.sweep(text, out=tmp_path / "o", resume=True)
    assert len(store.rows(tmp_path / "o")) == 4


def test_a_scheduler_without_workers_is_the_users_mistake(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 1)
    (tmp_path / "w").mkdir()
    with Scheduler(tmp_path / "w", workers=0, VITRO_NATIVE_MODULE="fake_vitro") as there:
        with pytest.raises(vitro.ConfigError, match="has no worker"):
            vitro.sweep(SWEEP % (tmp_path / "runs.log"), on=f"dask:{there.address}")


def call(about):
    tree = {"experiment": {"machine": "sim", "engine": {}, "memory": {}, "workload": {"output_tokens": 1}, "seed": about, "fake": {}}}
    return Task("run", (json.dumps(tree), None), about=about)


@pytest.mark.all
def test_a_local_cluster_whose_workers_all_ended_is_named(fake):
    """They end after the first outcome, so that what follows is submitted with no worker."""
    place = cluster.local_cluster(2, patience=1)
    try:
        outcomes = execute((call(number) for number in range(4)), place, Limits())
        assert next(outcomes)[1].error is None
        place.within.scale(0)
        for _ in range(3000):
            if not place._workers():
                break
            time.sleep(0.02)
        with pytest.raises(vitro.RunError, match="all workers of the local cluster ended, and none came for 1 s.*--resume"):
            list(outcomes)
    finally:
        place.close()


@pytest.mark.all
def test_a_scheduler_whose_last_worker_ended_during_a_run_is_named_and_nothing_is_lost(fake, tmp_path, monkeypatch):
    """An existing scheduler tries again by itself, three times unless told otherwise, so it holds the run back for a worker."""
    monkeypatch.setattr(cluster, "_PATIENCE", 2)
    text = (SWEEP % (tmp_path / "runs.log")).replace("runs.log}", "runs.log, sleep: 1}")
    (tmp_path / "w").mkdir()
    with Scheduler(tmp_path / "w", VITRO_NATIVE_MODULE="fake_vitro", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="3") as there:
        def kill():
            while not list((tmp_path / "o/store/parts").glob("[!.]*")):
                time.sleep(0.02)
            there.workers[0].kill()
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        with pytest.raises(vitro.RunError, match=f"all workers of {there.address} ended.*--resume"):
            vitro.sweep(text, out=tmp_path / "o", on=f"dask:{there.address}")
        thread.join()
    assert 1 <= len(store.rows(tmp_path / "o")) < 4


@pytest.mark.all
def test_a_model_that_went_meanwhile_is_named_and_fails_its_point_alone(fake, tmp_path):
    """No worker has it, and here it is gone or another one when it is to be sent."""
    tasks = {}
    for name in ("gone", "changed"):
        (tmp_path / name).write_text(name)
        tasks[name] = Task("run", call(name).args, files={str(tmp_path / name): fingerprints.of_file(tmp_path / name)}, about=name)
    (tmp_path / "gone").unlink()
    (tmp_path / "changed").write_text("another content")
    with Scheduler(tmp_path / "w", VITRO_NATIVE_MODULE="fake_vitro") as there:
        place = cluster.existing(there.address)
        try:
            found = {task.about: outcome for task, outcome in execute([*tasks.values(), call(1)], place, Limits())}
        finally:
            place.close()
    assert found[1].error is None
    assert f"{tmp_path}/gone: can not be sent to a worker (No such file" in str(found["gone"].error)
    assert f"{tmp_path}/changed: did not arrive whole" in str(found["changed"].error)
    assert list((tmp_path / "w/worker-cache/files").iterdir()) == [] and not place._sent


@pytest.mark.all
def test_each_worker_gets_a_file_once_however_many_threads_send_it(fake, tmp_path, monkeypatch):
    sent = []
    send_file = cluster.Cluster._send_file
    monkeypatch.setattr(cluster.Cluster, "_send_file", lambda self, at, *rest: sent.append(at) or send_file(self, at, *rest))
    before = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs none {tmp_path}/hidden && exec "$@"', "sh"]
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no name spaces for users here")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/m").write_text("a model")
    files = {str(tmp_path / "hidden/m"): fingerprints.of_file(tmp_path / "hidden/m")}
    with Scheduler(tmp_path / "w", workers=3, before=before, VITRO_NATIVE_MODULE="fake_vitro") as there:
        place = cluster.existing(there.address)
        try:
            tasks = [Task("run", call(number).args, files=files, about=number) for number in range(9)]
            assert all(outcome.error is None for _, outcome in execute(tasks, place, Limits()))
        finally:
            place.close()
    assert 1 <= len(sent) <= 3 and len(set(sent)) == len(sent)


def test_what_has_given_its_scheduler_up_has_nothing_to_cancel():
    class Closed:
        def cancel(self, futures, force):
            from distributed.client import ClosedClientError
            raise ClosedClientError("Client is closed")

    place = object.__new__(cluster.Cluster)
    place.client, place._sent = Closed(), {1}
    place.cancel()
