"""Cycles of straight code, by llvm-mca."""
import functools
import re
import subprocess

from cores import STAND_INS
from loops import carried

MCA = "llvm-mca-19"

# An accumulator that the compiler keeps on the stack: the next round's load needs this round's store.
ROUND_TRIP = ["ldr q0, [sp, 16]", "fmla v0.4s, v1.4s, v2.4s", "str q0, [sp, 16]"]


def cycles(lines, model):
    """Per round, in the steady state. Loads do not wait for stores elsewhere; where the loop loads what an earlier round stored,
    no round is shorter than that way through memory."""
    taken = steady(tuple(lines), model, "-noalias=true")
    return max(taken, steady(tuple(ROUND_TRIP), model, "-noalias=false")) if carried(lines) else taken


@functools.cache
def steady(lines, model, aliasing):
    """What 400 rounds take beyond 200."""
    if any(re.match(r"blr?\s", line) for line in lines):
        raise SystemExit("a hot loop calls a function: it can not be priced as straight code")

    for pattern, other in STAND_INS.get(model, []):
        lines = [re.sub(pattern, other, line) for line in lines]

    def total(rounds):
        text = run([MCA, "-march=aarch64", f"-mcpu={model}", "-mattr=+i8mm,+dotprod", aliasing, "-instruction-info=false",
                    "-resource-pressure=false", f"-iterations={rounds}"], "\n".join(lines) + "\n")
        return int(re.search(r"Total Cycles:\s+(\d+)", text)[1])
    return (total(400) - total(200)) / 200


def run(command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout
