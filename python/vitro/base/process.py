"""Native calls in a process of their own.

SystemC elaborates once per process, so every run gets a fresh interpreter. That also makes repeated runs deterministic,
turns a crash into a RunError, and lets Ctrl-C end native code. A plain child is used rather than multiprocessing's fork
server: scripts then need no `if __name__ == "__main__"`, and it works inside daemonic workers such as Dask's.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from ..errors import ConfigError, RunError

# A simulation walks over tables of millions of neurons and makes a hundred thousand small objects per token: huge pages, and a cache
# that holds what a layer frees at once (docs/design/sim-speed.md).
_MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=2000:glibc.malloc.tcache_max=16384"

_running: set[subprocess.Popen[bytes]] = set()  # children of every thread, so that Ctrl-C in the main one can end them all
_ERRORS = {"ConfigError": ConfigError, "RunError": RunError}


def realtime():
    """Puts this process and the children that it will start before all ordinary ones, so that these do not preempt a measurement."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
    except PermissionError:
        raise ConfigError("--realtime: this user may not schedule in real time (expected root, or a limit `rtprio` above 0)") from None


def call(function, *args, progress=None, attached=(), env=None):
    """Runs `native.call(function, *args)` in a child. `progress(done, total)` is called from another thread.
    attached: what the function gets besides (attachments.py).
    env: variables over the caller's own."""
    request = {"call": [function, *args], "attached": list(attached)}
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    env = {"GLIBC_TUNABLES": _MALLOC} | os.environ | (env or {}) | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)), "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1",
        "PYTHONHASHSEED": "0"}  # the order of a model's own sets must not differ between runs
    if progress:
        env["VITRO_PROGRESS"] = "1"
    child = subprocess.Popen([sys.executable, "-m", "vitro.base.worker"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    _running.add(child)
    said = collections.deque(maxlen=40)
    reader = threading.Thread(target=_listen, args=(child.stderr, said, progress), daemon=True)
    reader.start()
    try:
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
        _running.discard(child)
        child.stdout.close()
    if code != 0 or not answer:
        raise RunError(_obituary(function, code, said))
    reply = json.loads(answer)
    if "error" in reply:
        raise _ERRORS[reply["error"]](reply["message"])
    return reply["value"]


def kill_all():
    """Ends every run of this process; their callers get a RunError."""
    for child in list(_running):
        child.kill()


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
