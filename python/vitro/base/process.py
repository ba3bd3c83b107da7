"""Native calls in a process of their own.

SystemC elaborates once per process, so every run gets a fresh one. That also makes repeated runs deterministic,
turns a crash into a RunError, and lets Ctrl-C end native code. A plain child, or one of a plain process that forks for each call
(nursery.py), is used rather than multiprocessing's fork server: scripts then need no `if __name__ == "__main__"`, and it works inside
daemonic workers such as Dask's.
"""
import collections
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

from ..errors import ConfigError, Lost, Overtime, RunError
from . import nursery

# A simulation walks over tables of millions of neurons and makes a hundred thousand small objects per token: huge pages, and a cache
# that holds what a layer frees at once (docs/design/sim-speed.md). The C library caches no objects above 1 KiB, whatever is asked.
MALLOC_TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=2000"

_interrupted = threading.Event()


def remember_interrupts():
    """For programs, at their start: a Ctrl-C that the interpreter loses, since it arrives in a callback such as that of a weak reference,
    ends the next native call before it begins."""
    def interrupt(number, frame):
        _interrupted.set()
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


_ERRORS = {"ConfigError": ConfigError, "RunError": RunError}


class Group:
    """Children that end together, such as those of one sweep."""

    def __init__(self):
        self._children, self._lock, self.ended, self._nursery = set(), threading.Lock(), False, None

    def forked(self, env):
        """A child of this group's nursery, which is made at the first call. None: that has another environment, the group has ended, or
        there can be no nursery here."""
        if not nursery.possible():
            return None
        with self._lock:
            if self.ended:
                return None
            mother = self._nursery = self._nursery or nursery.Nursery(env)
        if mother.env != env:
            return None
        child = mother.child()
        if child is None:  # somebody ended the nursery
            with self._lock:
                self._nursery = None if self._nursery is mother else self._nursery
        return child

    def close(self):
        """Ends the nursery. Requires: no child runs."""
        with self._lock:
            mother, self._nursery = self._nursery, None
        if mother:
            mother.close()

    def kill(self):
        """Ends all of them, and at once those that are still to come; their callers get a Lost."""
        with self._lock:
            self.ended = True
            for child in self._children:
                child.kill()

    def add(self, child):
        with self._lock:
            self._children.add(child)
            if self.ended:
                child.kill()

    def discard(self, child):
        with self._lock:
            self._children.discard(child)


class _Repeats:
    """The group of what this process calls by itself, one after another, as scripts and notebooks do. None at the first call, which would
    pay for a nursery that nobody uses again, and at the first after a change of what children inherit."""

    def __init__(self):
        self._lock, self._inherited, self._group = threading.Lock(), None, None

    def group(self, env):
        with self._lock:
            inherited = env, _inherited()
            if self._inherited != inherited:
                self._inherited, self._group = inherited, None  # a nursery ends with its last child
                return None
            self._group = self._group or Group()
            return self._group


_repeats = _Repeats()


def _forget():
    global _repeats
    _repeats = _Repeats()


os.register_at_fork(after_in_child=_forget)  # that was its parent's


def _inherited():
    """What a child has of its parent besides variables, files and folder."""
    limits = tuple(resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_"))
    mask = next((line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:")), None)
    return os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), limits, mask


def realtime():
    """Puts this process and the children that it will start before all ordinary ones, so that these do not preempt a measurement."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
    except PermissionError:
        raise ConfigError("--realtime: this user may not schedule in real time (expected root, or a limit `rtprio` above 0)") from None


def call(function, *args, progress=None, attached=(), env=None, limit_s=None, group=None, forks=False):
    """Runs `native.call(function, *args)` in a child. `progress(done, total)` is called from another thread.
    attached: what the function gets besides (attachments.py). env: variables over the caller's own. limit_s: seconds after which it is
    ended (Overtime). group: a Group that it joins. forks: the child is one of the nursery of its group, or, from the second call on, of
    this process; else it has an interpreter of its own.
    Raises Lost where somebody else ended the child."""
    request = {"call": [function, *args], "attached": list(attached), "progress": progress is not None}
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    env = {"GLIBC_TUNABLES": MALLOC_TUNABLES} | os.environ | (env or {}) | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)), "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1",
        "PYTHONSAFEPATH": "1",  # a study's folder may hold a json.py
        "PYTHONHASHSEED": "0"}  # the order of a model's own sets must not differ between runs
    env.pop("PYTEST_CURRENT_TEST", None)  # another one in each test
    if forks and group is None and nursery.possible():
        group = _repeats.group(env)
    overtime, said, watch, child = threading.Event(), collections.deque(maxlen=40), None, None
    # Ctrl-C waits until somebody will end the child: within a callback of the interpreter it would be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        child = (group.forked(env) if group and forks else None) or subprocess.Popen(
            [sys.executable, "-m", "vitro.base.worker"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if group:
            group.add(child)
        if limit_s:
            watch = threading.Timer(limit_s, lambda: (overtime.set(), child.kill()))
            watch.daemon = True
            watch.start()
        reader = threading.Thread(target=_listen, args=(child.stderr, said, progress), daemon=True)
        reader.start()
    except BaseException:
        if child:
            child.kill()
            child.wait()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with child.stdin as pipe:
            pipe.write(json.dumps(request).encode())
        answer = child.stdout.read()
        code = child.wait()
        reader.join()
    except BrokenPipeError:
        code, answer = child.wait(), b""
        reader.join()
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        if watch:
            watch.cancel()
        if group:
            group.discard(child)
        child.stdout.close()
    if code != 0 or not answer:
        if overtime.is_set():
            raise Overtime(f"the process of `{function}` was ended after its limit of {limit_s:g} s")
        raise (Lost if -code in (signal.SIGKILL, signal.SIGTERM) else RunError)(_obituary(function, code, said))
    reply = json.loads(answer)
    if "error" in reply:
        raise _ERRORS[reply["error"]](reply["message"])
    return reply["value"]


def call_alike(function, *args, attached=(), **more):
    """The same; a second time where an attachment says `twice`. Raises RunError where the two differ: what Python decides in them depends
    on something else than what it is told."""
    first = call(function, *args, attached=attached, **more)
    if any(attachment.get("twice") for attachment in attached):
        _compare(first, call(function, *args, attached=attached, **more))
    return first


def _compare(first, second):
    for one, other in zip(first.get("policies", ()), second.get("policies", ())):
        if one.get("decisions") == other.get("decisions"):
            continue
        title = f"the {one['kind']} policy {one['name']}"
        tokens = zip(one["by_token"], other["by_token"])
        differing = next((index for index, (a, b) in enumerate(tokens) if a != b), None)
        where = "" if differing is None else f", the first time in decode step {differing // max(one['objects'], 1)}"
        raise RunError(f"{title} decides differently in two runs of one seed{where} (expected decisions that depend on what it is told; a "
                       "generator of random numbers has to be seeded by the class)")


def _listen(stream, said, progress):
    """Takes progress lines out of the child's stderr and remembers the rest, which explains a crash."""
    for raw in stream:
        line = raw.decode(errors="replace").rstrip()
        words = line.split()
        if progress and len(words) == 3 and words[0] == "progress" and words[1].isdigit() and words[2].isdigit():
            progress(int(words[1]), int(words[2]))
        elif line:
            said.append(line)
            if os.environ.get("VITRO_LOG"):
                print(line, file=sys.stderr)
    stream.close()


def _obituary(function, code, said):
    cause = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"the process of `{function}` {cause}" + (", after saying:\n  " + "\n  ".join(list(said)[-8:]) if said else "")
