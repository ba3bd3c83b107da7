"""The slow core of `vitro bench engine`."""
import os
import signal
import subprocess
import sys
import time

BURNS = """
import os, time
from vitro.commands.bench_threads import burner
with burner(min(os.sched_getaffinity(0))):
    print("burning", flush=True)
    time.sleep(60)
"""


def burners(cpu_mark):
    found = subprocess.run(["pgrep", "-f", cpu_mark], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in found if int(pid) != os.getpid()]


def test_a_burner_does_not_outlive_a_command_that_is_killed():
    command = subprocess.Popen([sys.executable, "-c", BURNS], stdout=subprocess.PIPE, text=True, env=os.environ)
    mark = f"os.getppid\\(\\) == {command.pid}"
    try:
        assert command.stdout.readline() == "burning\n"
        deadline = time.monotonic() + 20
        while not burners(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(burners(mark)) == 1
    finally:
        command.send_signal(signal.SIGKILL)
        command.wait()
    while burners(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not burners(mark)
