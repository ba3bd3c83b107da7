"""`vitro-device` of an installed package: the engine and the host machine as one program."""
import os
import sys
from pathlib import Path


def path() -> Path | None:
    """The program, where this package was installed with it; a checkout has it in its build folder."""
    program = Path(__file__).parents[1] / "bin" / "vitro-device"
    return program if program.is_file() else None


def main() -> None:
    """Becomes the program, with the caller's arguments."""
    program = path()
    if program is None:
        print("vitro-device: is not part of this package (a checkout has it in build/release/engine/app)", file=sys.stderr)
        sys.exit(2)
    os.execv(program, [str(program), *sys.argv[1:]])
