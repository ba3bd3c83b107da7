"""The child that `process.call` starts: one request on stdin, one JSON reply on the stdout it was born with."""
import ctypes
import json
import os
import signal
import sys

from . import _native, device_models, scaling
from .errors import ConfigError, RunError

_PR_SET_PDEATHSIG = 1


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no simulation outlives the one who asked for it
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the reply
    request = json.load(sys.stdin)
    try:
        more = {"models": device_models.unpacked(request["models"])} if "models" in request else {}
        more |= {"scorer": scaling.unpacked(request["scorer"])} if "scorer" in request else {}
        reply = {"value": _native.call(*request["call"], **more)}
    except (ConfigError, RunError) as error:
        reply = {"error": type(error).__name__, "message": str(error)}
    with replies:
        json.dump(reply, replies)


if __name__ == "__main__":
    main()
