"""The child that `process.call` starts, or a Nursery: one request on stdin, one JSON reply on the stdout it was born with."""
import ctypes
import json
import os
import signal
import sys

from ..errors import ConfigError, RunError
from . import native

_PR_SET_PDEATHSIG = 1


def main(parent=None):
    """parent: the process that it was forked from, if it was. -> whether it ran nothing of the caller's own, which may have something to
    do at the end of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # as processes expect it that this one starts
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no simulation outlives the one who asked for it
    if parent is not None and os.getppid() != parent:
        return True
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")  # as JSON is, whatever the locale
    os.dup2(2, 1)  # what libraries print must not mix with the reply
    getattr(native.module(), "exit_when_memory_ends", lambda: None)()  # a stand-in has no memory of its own to end
    request = json.load(sys.stdin)
    if request["progress"]:
        os.environ["VITRO_PROGRESS"] = "1"
    try:
        value = native.call_as_json(*request["call"], **_attached(request["attached"]))
        reply = f'{{"value": {value}}}'  # not made anew: a result has some hundred thousand characters
    except (ConfigError, RunError) as error:
        reply = json.dumps({"error": type(error).__name__, "message": str(error)})
    with replies:
        replies.write(reply)
    return not request["attached"]


def _attached(attachments):
    if not attachments:
        return {}
    from .attachments import unpacked  # what unpickles costs a process some milliseconds, and few are handed anything
    return unpacked(attachments)


if __name__ == "__main__":
    main()
