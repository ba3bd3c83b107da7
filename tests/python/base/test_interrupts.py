"""A Ctrl-C is not lost, wherever in a program it arrives."""
import subprocess
import sys

LOST = """
import os, signal, weakref
from vitro.base import process

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born without
process.remember_interrupts()
class Thing: pass
thing = Thing()
gone = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
del thing  # the interpreter can not raise what its callback raises
print("goes on", flush=True)
process.call("version")
"""


def run(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)


def test_an_interrupt_in_a_callback_ends_the_next_native_call():
    done = run(LOST)
    assert done.stdout == "goes on\n"
    assert "Exception ignored in" in done.stderr and done.stderr.endswith("KeyboardInterrupt\n")
    assert done.returncode != 0
    without = run(LOST.replace("process.remember_interrupts()", ""))
    assert without.stdout == "goes on\n" and not without.stderr.endswith("KeyboardInterrupt\n"), "else this test shows nothing"
