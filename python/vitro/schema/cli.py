"""`vitro schema`."""
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import outputs
from . import files


def command(kind: Annotated[str, typer.Argument(metavar="|".join(files.MADE))],
            out: Annotated[Optional[Path], typer.Option(metavar="FILE.json", help="Write it there, in place of stdout.")] = None):
    """JSON Schema of a kind of file, for completion and checks in an editor (docs/guide/editors.md).

    Keys, units and names are asked of this vitro's own reader.

    Examples:

        vitro schema experiment --out experiment.json

        vitro schema device > device.json
    """
    if out is None:
        sys.stdout.write(files.text(kind))
        return
    outputs.file(out, "--out")
    files.write(kind, out)
    print(out)
