"""The executor: order of a generator, limits, retries, isolation, measurements alone."""
import glob
import json
import os
import signal
import threading
import time

import pytest
from vitro.base.cores import usable_cores
from vitro.errors import ConfigError, Lost, Overtime, RunError
from vitro.execute import machine_lock, places
from vitro.execute.executor import execute, execute_all
from vitro.execute.local import Local
from vitro.execute.task import Limits, Outcome, Task


def run(about=None, exclusive=False, **trouble):
    tree = {"experiment": {"machine": "sim", "engine": {}, "memory": {}, "workload": {"output_tokens": 1}, "seed": about, "fake": trouble}}
    return Task("run", (json.dumps(tree), None), exclusive=exclusive, about=about)


class Scripted:
    """A place whose outcomes are given."""

    def __init__(self, outcomes, slots=1):
        self.outcomes, self.count, self.cancelled = outcomes, slots, False

    def slots(self):
        return self.count

    def perform(self, task, limits):
        found = self.outcomes[task.about].pop(0)
        if isinstance(found, BaseException) and not isinstance(found, (ConfigError, RunError)):
            raise found
        return Outcome(error=found) if isinstance(found, Exception) else Outcome(found)

    def cancel(self):
        self.cancelled = True


def test_values_are_in_the_order_of_the_tasks(fake):
    tasks = [run(1, sleep=0.3), run(2), run(3)]
    assert [value["seed"] for value in execute_all(tasks, workers=3)] == [1, 2, 3]


def test_tasks_are_taken_when_there_is_a_slot():
    taken = []

    def tasks():
        for number in range(4):
            taken.append(number)
            yield Task("x", (), about=number)
    results = execute(tasks(), Scripted({number: [number] for number in range(4)}, slots=2))
    next(results)
    assert taken in ([0, 1], [0, 1, 2])


def test_who_is_lost_is_tried_again_and_no_one_else():
    place = Scripted({"a": [Lost("x"), Lost("x"), 7], "b": [Lost("x")] * 3, "c": [RunError("boom")], "d": [1]})
    found = {task.about: outcome for task, outcome in execute([Task("f", (), about=name) for name in "abcd"], place, Limits(retries=2))}
    assert (found["a"].value, found["a"].tries) == (7, 3)
    assert isinstance(found["b"].error, Lost) and found["b"].tries == 3
    assert (found["c"].tries, found["d"].value) == (1, 1) and str(found["c"].error) == "boom"


def test_what_ends_everything_is_raised():
    place = Scripted({"a": [KeyError("scheduler")], "b": [1]}, slots=2)
    with pytest.raises(KeyError):
        list(execute([Task("f", (), about="a"), Task("f", (), about="b")], place))


def test_a_time_limit_ends_one_task_alone(fake):
    class Watched(Local):
        """One run has the limit, so that the other one may take as long as a busy machine makes it."""

        def perform(self, task, limits):
            return super().perform(task, limits if task.about == 1 else Limits())
    found = {task.about: outcome for task, outcome in execute([run(1, sleep=600), run(2)], Watched(2), Limits(seconds=2.0))}
    assert isinstance(found[1].error, Overtime) and "limit of 2 s" in str(found[1].error)
    assert found[2].error is None


def test_a_process_that_somebody_ended_is_tried_again(fake, tmp_path):
    """The first try is killed from outside as soon as it runs."""
    def kill():
        for _ in range(500):
            if (tmp_path / "runs.log").exists():
                for child in children():
                    os.kill(child, signal.SIGKILL)
                return
            time.sleep(0.02)
    thread = threading.Thread(target=kill)
    thread.start()
    (task, outcome), = execute([run(1, log="runs.log", sleep=1)], Local(1))
    thread.join()
    assert outcome.error is None and outcome.tries == 2


def children():
    """Processes of runs: what a nursery has forked."""
    return [child for nursery in of(os.getpid()) for child in of(nursery)]


def of(parent):
    """The processes that another one has started from the package's own modules; those that end meanwhile are left out."""
    started = [int(pid) for task in glob.glob(f"/proc/{parent}/task/*/children") for pid in text(task).split()]
    return [pid for pid in started if "vitro.base." in text(f"/proc/{pid}/cmdline")]


def text(path):
    """What a file of /proc says; nothing where its thread or process has ended."""
    try:
        with open(path) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_crash_is_no_loss(fake):
    (task, outcome), = execute([run(1, crash=True)], Local(1), Limits(retries=5))
    assert outcome.tries == 1 and "SIGSEGV" in str(outcome.error)


def test_leaving_the_loop_ends_what_runs(fake):
    for task, outcome in execute([run(1), run(2, sleep=300), run(3, sleep=300)], Local(3)):
        break
    for _ in range(3000):
        if not children():
            return
        time.sleep(0.02)
    pytest.fail(f"still there: {children()}")


def test_a_measurement_is_alone(fake, tmp_path):
    """Nothing begins between the begin and the end of the exclusive ones."""
    inside, worst, lock = 0, [], threading.Lock()

    class Watched(Local):
        def perform(self, task, limits):
            nonlocal inside
            with machine_lock.room(exclusive=task.exclusive):
                with lock:
                    inside += 1
                    worst.append((inside, task.exclusive))
                time.sleep(0.02)
                with lock:
                    inside -= 1
            return Outcome(task.about)
    tasks = [Task("f", (), about=number, exclusive=number % 3 == 0) for number in range(18)]
    assert len(list(execute(tasks, Watched(6)))) == 18
    assert all(count == 1 for count, exclusive in worst if exclusive) and max(count for count, _ in worst) > 1


def test_who_waits_for_the_machine_can_be_ended():
    with machine_lock.room(exclusive=True), pytest.raises(Lost):
        with machine_lock.room(exclusive=False, ended=lambda: True):
            pass


@pytest.mark.parametrize("on, said", [("cloud", "'cloud'"), ("local:4", "'local:4'"), ("slurm", "'slurm'"), ("dask:", "'dask:'"),
                                      ("slurm:nowhere.yaml", "nowhere.yaml: no such file")])
def test_a_place_that_is_none_is_refused(on, said):
    with pytest.raises(ConfigError, match=said):
        places.check(on)


def test_workers_belong_to_places_on_this_machine():
    places.check("dask", 3)
    with pytest.raises(ConfigError, match="--workers"):
        places.check("dask:tcp://a:1", 3)


@pytest.mark.parametrize("text, said", [
    ("[1]", "is not a map"), ("cores: 2\nmemory: 1 GB\nqueu: x", "queu: unknown key"), ("memory: 1 GB", "cores: is missing"),
    ("cores: two\nmemory: 1 GB", "cores: 'two'"), ("cores: 2\nmemory: 1 GB\njobs: 0", "jobs: 0")])
def test_a_file_for_slurm_is_checked(tmp_path, text, said):
    path = tmp_path / "slurm.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        places.check(f"slurm:{path}")


def test_cores_are_those_of_the_affinity_and_of_the_quota(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/slice/job\n")
    groups = tmp_path / "groups"
    (groups / "slice/job").mkdir(parents=True)
    have = len(os.sched_getaffinity(0))
    assert usable_cores(groups, own) == have
    (groups / "slice/job/cpu.max").write_text("max 100000\n")
    (groups / "slice/cpu.max").write_text("150000 100000\n")
    assert usable_cores(groups, own) == min(have, 1)
    (groups / "slice/cpu.max").write_text("50000 100000\n")
    assert usable_cores(groups, own) == 1
    own.write_text("3:cpu,cpuacct:/old\n")
    (groups / "cpu/old").mkdir(parents=True)
    (groups / "cpu/old/cpu.cfs_quota_us").write_text("100000\n")
    (groups / "cpu/old/cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(groups, own) == 1
    assert usable_cores(groups, tmp_path / "none") == have
