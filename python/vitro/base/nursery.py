"""A process that has loaded all that a native call needs, and becomes two for each of them: a call then costs no interpreter's start.

What a child begins with is what a new process has after its imports, since nothing ran in the one that it comes from; what it does stays
with it. So calls leak nothing into each other, and a call's answer is the same in a child of either kind.
"""
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref


@functools.cache
def possible():
    """Whether this system tells the end of a process by a file, as the nursery needs it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        return True
    except (AttributeError, OSError):  # not Linux, or one before 5.3
        return False


class Child:
    """Of a nursery, used as a subprocess.Popen is."""

    def __init__(self, nursery, number, pipes, status):
        self._nursery, self._number, self._status, self._code = nursery, number, status, None
        self.stdin, self.stdout, self.stderr = pipes

    def kill(self):
        self._nursery.tell({"kill": self._number})

    def wait(self):
        """-> the exit code; of a child whose nursery was ended, which ended the child, that of SIGKILL."""
        if self._code is None:
            said = self._status.read()  # may be interrupted, and be asked again
            self._code = int(said) if said else -signal.SIGKILL
            self._status.close()
        return self._code


class Nursery:
    """env: the whole environment of its children. Ends with this object, or with this process, and ends its children then."""

    def __init__(self, env):
        self.env, self._numbers, self._lock = env, 0, threading.Lock()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen([sys.executable, "-m", "vitro.base.nursery_server", str(there.fileno())], env=env,
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[there.fileno()])
        self._socket = here
        self.close = weakref.finalize(self, _end, here, self._process)
        _nurseries.add(self)

    def child(self):
        """None where the nursery was ended."""
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            theirs.callback(os.close, here := os.open(".", os.O_PATH | os.O_DIRECTORY))
            kept, given = [], []
            for mode in ("wb", "rb", "rb", "rb"):  # stdin, stdout, stderr, and where the nursery says how the child ended
                reads, writes = os.pipe()
                mine, other = (writes, reads) if mode == "wb" else (reads, writes)
                theirs.callback(os.close, other)
                given.append(other)
                kept.append(ours.enter_context(os.fdopen(mine, mode)))
            with self._lock:
                self._numbers += 1
                number = self._numbers
            try:
                socket.send_fds(self._socket, [json.dumps({"child": number}).encode()], [*given, here])
            except OSError:
                return None
            ours.pop_all()
            return Child(self, number, kept[:3], kept[3])

    def tell(self, request):
        try:
            self._socket.send(json.dumps(request).encode())
        except OSError:  # ended, and its children with it
            pass

    def leave(self):
        """In a fork of the process that made it: it stays that one's, and its next child here is None."""
        self.close.detach()
        self._socket.close()


_nurseries: weakref.WeakSet[Nursery] = weakref.WeakSet()


def _leave_all():
    for one in list(_nurseries):
        one.leave()


os.register_at_fork(after_in_child=_leave_all)


def _end(connection, process):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # also where a process that was forked just now holds it, too
    connection.close()
    process.wait()
