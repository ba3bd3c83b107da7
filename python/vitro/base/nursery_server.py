"""The process behind a Nursery: `python -m vitro.base.nursery_server FD`, with the socket on which it is asked for children."""
import contextlib
import json
import os
import select
import signal
import socket
import sys

from . import native, worker
from ..errors import RunError

_MOST = 4096  # bytes of a request


def serve(connection):
    """-> in a child, True; False at the end, when nobody is left who asks. A request comes with five files: stdin, stdout, stderr, where to
    say how the child ended, and the folder to work in."""
    running = {}  # by the file that tells its end: (number, process, where to say how it ended)
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while True:
        for file, _ in poll.poll():
            if file != connection.fileno():
                poll.unregister(file)
                _, child, said = running.pop(file)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                _say(said, code)
                os.close(file)
                continue
            request, files, _, _ = socket.recv_fds(connection, _MOST, 5)
            if not request:
                for _, child, _ in running.values():
                    os.kill(child, signal.SIGKILL)
                return False
            wanted = json.loads(request)
            if "kill" in wanted:
                for number, child, _ in running.values():
                    if number == wanted["kill"]:
                        os.kill(child, signal.SIGKILL)
                continue
            child = os.fork()
            if child == 0:
                for file, (_, _, said) in running.items():
                    os.close(file)
                    os.close(said)
                for number, end in enumerate(files[:3]):
                    os.dup2(end, number)
                os.fchdir(files[4])
                for end in files:
                    os.close(end)
                return True
            for end in (*files[:3], files[4]):
                os.close(end)
            file = os.pidfd_open(child)
            running[file] = wanted["child"], child, files[3]
            poll.register(file, select.POLLIN)


def _say(file, code):
    with contextlib.suppress(BrokenPipeError):
        os.write(file, str(code).encode())
    os.close(file)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        native.module()
    except RunError:  # each call says so
        pass
    parent = os.getpid()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        born = serve(connection)
    if born:
        worker.main(parent)


if __name__ == "__main__":
    main()
