"""The child that `process.call` starts: one request on stdin, one JSON reply on the stdout it was born with."""
import ctypes
import json
import os
import signal
import sys

from ..errors import ConfigError, RunError
from . import native
from .attachments import unpacked

_PR_SET_PDEATHSIG = 1


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # as processes expect it that this one starts
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no simulation outlives the one who asked for it
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the reply
    getattr(native.module(), "exit_when_memory_ends", lambda: None)()  # a stand-in has no memory of its own to end
    request = json.load(sys.stdin)
    try:
        reply = {"value": native.call(*request["call"], **unpacked(request["attached"]))}
    except (ConfigError, RunError) as error:
        reply = {"error": type(error).__name__, "message": str(error)}
    with replies:
        json.dump(reply, replies)


if __name__ == "__main__":
    main()
