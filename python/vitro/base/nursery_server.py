"""The process behind a Nursery: `python -m vitro.base.nursery_server FD`, with the socket on which it is asked for children."""
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys

from ..errors import RunError
from . import attachments as attachments  # so that its children have them
from . import native, worker

_MOST = 4096  # bytes of a request


class Server:
    """Forks for who holds the other end of the connection."""

    def __init__(self, connection):
        self._connection, self._poll = connection, select.poll()
        self._poll.register(connection, select.POLLIN)
        self._running = {}  # by the file that tells a child's end: (its number, its process, where to say how it ended)

    def serve(self):
        """-> in a child, True; False at the end, when nobody is left who asks."""
        while True:
            for file, _ in self._poll.poll():
                if file != self._connection.fileno():
                    self._bury(file)
                    continue
                request, files, _, _ = socket.recv_fds(self._connection, _MOST, 5)
                if not request:
                    self._kill(lambda number: True)
                    return False
                wanted = json.loads(request)
                if "kill" in wanted:
                    self._kill(lambda number: number == wanted["kill"])
                elif self._fork(wanted["child"], files):
                    return True

    def _fork(self, number, files):
        """-> whether this is the child. files: its stdin, stdout and stderr, where to say how it ended, and the folder that it works in.
        Where there can be none now, who asked finds that its child was lost."""
        child = None
        with contextlib.suppress(OSError):
            child = os.fork()
        if child == 0:
            for running, (_, _, said) in self._running.items():
                os.close(running)
                os.close(said)
            for standard, file in enumerate(files[:3]):
                os.dup2(file, standard)
            os.fchdir(files[4])
        elif child:
            file = os.pidfd_open(child)
            self._running[file] = number, child, os.dup(files[3])
            self._poll.register(file, select.POLLIN)
        for file in files:
            os.close(file)
        return child == 0

    def _kill(self, chosen):
        for number, child, _ in self._running.values():  # none of them is gone: only _bury() takes leave of one
            if chosen(number):
                os.kill(child, signal.SIGKILL)

    def _bury(self, file):
        self._poll.unregister(file)
        _, child, said = self._running.pop(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            os.write(said, str(code).encode())
        os.close(said)
        os.close(file)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: who asked decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while os.open(os.devnull, os.O_RDWR) < 3:  # where the caller has closed its stderr, a child's file would get that number
        pass
    with contextlib.suppress(RunError):  # each call says so
        native.module()
    parent = os.getpid()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        born = Server(connection).serve()
    if born and worker.main(parent):
        sys.stdout.flush()
        sys.stderr.flush()
        # As a C program ends, for the files of plug-ins. To take the interpreter down object by object is a sixth of a short run's time.
        ctypes.PyDLL(None).exit(0)


if __name__ == "__main__":
    main()
