"""Calls in forked children: the answers of calls in interpreters of their own, whatever ran before them in the same nursery."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROOT
from vitro.base import nursery, process
from vitro.errors import Lost, Overtime, RunError
from vitro.running import experiments

MODEL = ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf"
# A stand-in whose calls would leave traces behind, were they in one process.
MODULE = """
import ctypes, json, os, random, time
class ConfigError(Exception): pass
class RunError(Exception): pass
calls = []
def leave_traces():
    calls.append(1)
    os.environ["TRACE"] = "left"
    os.chdir("/")
def traces(): return [calls, os.environ.get("TRACE"), os.getcwd()]
def loader(): return os.getppid()
def sleep(seconds): time.sleep(seconds)
def crash(): os.kill(os.getpid(), 11)
def open_files(): return len(os.listdir("/proc/self/fd"))
def variable(name): return os.environ.get(name)
def write_as_a_plugin_does(path):
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fputs(b"its last line", ctypes.c_void_p(libc.fopen(path.encode(), b"w")))
"""

TINY = """
experiment: tiny
machine: sim
model: {format: q4_0, shape: {family: llama, name: tiny, layers: 2, width: 64, heads: 4, kv_heads: 4, ffn: 4096, vocab: 128, context: 64,
        norm_eps: 1e-5, activation: relu, rope_base: 10000, predictor_rank: 32}}
device: vitro:devices/oneplus12
engine: {policy: neuron_cluster, numerics: false, profile: {fraction: 20%, predictor: {recall: 1, precision: 0.8}}}
workload: {prompt_tokens: 4, output_tokens: 6, stop_at_eos: false, seed: 1}
memory: {ffn_in_dram: 50%}
"""
OTHER = TINY.replace("tiny", "other").replace("ffn: 4096", "ffn: 2048").replace("fraction: 20%", "fraction: 40%").replace("50%}", "25%}")


@pytest.fixture
def group(tmp_path, monkeypatch):
    (tmp_path / "leaky.py").write_text(MODULE)
    monkeypatch.setenv("VITRO_NATIVE_MODULE", "leaky")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made = process.Group()
    yield made
    made.close()


def forked(group, *args, **more):
    return process.call(*args, group=group, forks=True, **more)


def test_what_a_call_leaves_behind_is_gone_with_it(group, tmp_path):
    clean = [[], None, str(tmp_path)]
    for _ in range(2):
        forked(group, "leave_traces")
        assert forked(group, "traces") == process.call("traces") == clean


def test_children_of_a_nursery_have_one_parent_and_work_where_the_caller_does(group, tmp_path, monkeypatch):
    first = forked(group, "loader")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert forked(group, "traces")[2] == str(tmp_path / "inner")
    assert forked(group, "loader") == first != os.getpid()
    assert process.call("loader") == os.getpid()


def test_children_hold_no_files_of_others(group):
    alone = forked(group, "open_files")
    waiting = [threading.Thread(target=forked, args=(group, "sleep", 0.5)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert forked(group, "open_files") == alone
    for thread in waiting:
        thread.join()


def test_what_a_plugin_has_not_yet_written_is_not_lost_with_the_child(group, tmp_path):
    forked(group, "write_as_a_plugin_does", str(tmp_path / "log"))
    assert (tmp_path / "log").read_text() == "its last line"


def test_another_environment_is_not_that_of_the_nursery(group):
    assert forked(group, "variable", "SAID") is None
    assert forked(group, "variable", "SAID", env={"SAID": "yes"}) == "yes"
    assert forked(group, "variable", "SAID") is None


def test_a_crash_and_a_limit_end_one_child(group):
    loader = forked(group, "loader")
    with pytest.raises(RunError, match="SIGSEGV"):
        forked(group, "crash")
    with pytest.raises(Overtime, match="limit of 0.2 s"):
        forked(group, "sleep", 60, limit_s=0.2)
    assert forked(group, "loader") == loader


def test_who_ends_the_nursery_ends_its_children_and_the_next_call_has_another_one(group):
    loader, said = forked(group, "loader"), []

    def lost():
        try:
            forked(group, "sleep", 60)
        except Lost as error:
            said.append(error)
    thread = threading.Thread(target=lost)
    thread.start()
    time.sleep(0.3)
    os.kill(loader, signal.SIGKILL)
    thread.join(timeout=30)
    assert len(said) == 1
    assert forked(group, "loader") == os.getpid()  # found out, and got an interpreter of its own
    assert forked(group, "loader") not in (loader, os.getpid())


def test_a_closed_nursery_has_ended(group):
    loader = forked(group, "loader")
    group.close()
    assert not os.path.exists(f"/proc/{loader}")


@pytest.fixture
def fresh(group, monkeypatch):
    """As a process that has not called anything yet."""
    monkeypatch.setattr(process, "_repeats", process._Repeats())


def repeated():
    return process.call("loader", forks=True)


def test_what_a_process_repeats_is_forked_from_the_second_call_on(fresh):
    own, nursery = repeated(), repeated()
    assert own == os.getpid() != nursery == repeated()
    assert process.call("loader") == os.getpid()


def test_a_change_of_what_children_inherit_ends_the_nursery(fresh, monkeypatch):
    first = [repeated() for _ in range(2)][1]
    monkeypatch.setenv("SAID", "yes")
    assert [repeated() == os.getpid() for _ in range(3)] == [True, False, False]
    assert not os.path.exists(f"/proc/{first}")
    assert process.call("variable", "SAID", forks=True) == "yes"
    second, before = repeated(), os.umask(0o077)
    assert repeated() == os.getpid()
    assert repeated() not in (second, os.getpid())
    os.umask(before)


def test_calls_of_other_tests_and_with_progress_have_the_same_nursery(fresh, monkeypatch):
    nursery = [repeated() for _ in range(2)][1]
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another one")
    assert process.call("loader", forks=True, progress=print) == repeated() == nursery
    assert process.call("variable", "VITRO_PROGRESS", forks=True) is None
    assert process.call("variable", "VITRO_PROGRESS", forks=True, progress=print) == "1"


def test_a_fork_of_a_process_has_a_nursery_of_its_own(fresh):
    nursery = [repeated() for _ in range(2)][1]
    child = os.fork()
    if child == 0:
        try:
            loaders = [repeated() for _ in range(3)]
            os._exit(0 if loaders[0] == os.getpid() and loaders[1] == loaders[2] not in (nursery, os.getpid()) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert repeated() == nursery


def test_a_process_ends_though_a_fork_of_it_lives_on(fresh, tmp_path):
    (tmp_path / "script.py").write_text("""
import os, time
from vitro.base import nursery, process
for _ in range(2):
    process.call("loader", forks=True)
if os.fork() == 0:
    os.closerange(0, 3)
    time.sleep(60)
    os._exit(0)
""")
    paths = os.pathsep.join((str(ROOT / "python"), str(tmp_path)))
    subprocess.run([sys.executable, "script.py"], env=os.environ | {"PYTHONPATH": paths}, timeout=30, check=True)


def test_an_interrupt_while_a_child_ends_stays_an_interrupt(group, monkeypatch):
    loader, interrupted = forked(group, "loader"), []

    class Status:
        def __init__(self, file):
            self.file, self.close = file, file.close

        def read(self):
            if not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt
            return self.file.read()
    child = nursery.Child.__init__

    def made(self, mother, number, pipes, status):
        child(self, mother, number, pipes, Status(status))
    monkeypatch.setattr(nursery.Child, "__init__", made)
    with pytest.raises(KeyboardInterrupt):
        forked(group, "loader")
    assert forked(group, "loader") == loader


def test_simulations_of_one_process_are_forked_and_measurements_are_not(native, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process, "_repeats", process._Repeats())
    made, child = [], nursery.Nursery.child
    monkeypatch.setattr(nursery.Nursery, "child", lambda self: made.append(child(self)) or made[-1])
    results = [experiments.run(TINY) for _ in range(3)]
    assert len({result["event_hash"] for result in results}) == 1
    assert len(made) == 2 and all(made)
    experiments.run({"experiment": "here", "machine": "host", "model": {"gguf": str(MODEL)},
                     "workload": {"prompt": "A", "output_tokens": 1}})
    assert len(made) == 2


def test_runs_are_those_of_fresh_processes_whatever_ran_before(native, tmp_path, monkeypatch):
    """Two experiments and two seeds by turns in one nursery, some of them twice."""
    monkeypatch.chdir(tmp_path)

    def hashes(**more):
        for experiment, seed in ((TINY, 1), (OTHER, 1), (TINY, 2), (OTHER, 2), (TINY, 1), (OTHER, 1)):
            tree = experiments.compose(experiment, overrides={"workload.seed": seed}).tree
            answer = process.call("run", tree, None, **more)
            yield answer["event_hash"], answer["metrics"], answer["tokens"]
    group = process.Group()
    forks, fresh = list(hashes(group=group, forks=True)), list(hashes())
    group.close()
    assert forks == fresh
    assert len({event_hash for event_hash, _, _ in fresh}) == 4
