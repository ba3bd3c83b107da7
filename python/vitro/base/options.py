"""Options that several commands have."""
import os
from pathlib import Path
from typing import Annotated, Optional

import typer

from . import no_code
from .inputs import require_utf8

Sets = Annotated[Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="Override one value; may be repeated.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def _no_code(context: typer.Context, wanted: bool):
    """Runs take it from the environment, which their processes inherit."""
    if wanted and not context.resilient_parsing:
        os.environ[no_code.VARIABLE] = "1"


NoCode = Annotated[bool, typer.Option("--no-code", callback=_no_code, is_eager=True, help="Refuse plug-ins, Python and programs that the "
                                      "study brings, before any is loaded. VITRO_NO_CODE=1 does the same.")]


def _plugins(context: typer.Context, paths: Optional[list[Path]]):
    """Runs take plug-ins from the environment, which their processes inherit."""
    if context.resilient_parsing:
        return
    for path in paths or ():
        require_utf8(str(path), "--plugin")
    if paths:
        kept = os.environ.get("VITRO_PLUGINS")
        os.environ["VITRO_PLUGINS"] = os.pathsep.join([*([kept] if kept else []), *(str(path.absolute()) for path in paths)])


Plugins = Annotated[Optional[list[Path]], typer.Option("--plugin", metavar="FILE.so", callback=_plugins,
                                                       help="Load device models from a shared object; may be repeated.")]
On = Annotated[str, typer.Option("--on", metavar="local|dask[:ADDRESS]|slurm:FILE", help="Where runs are executed: this machine, a Dask "
                                 "cluster (made here, or at ADDRESS), or jobs of SLURM.")]
Workers = Annotated[Optional[int], typer.Option(min=1, help="Runs at a time on this machine. Default: the cores that may be used. A host "
                                                "run is always alone.")]
Limit = Annotated[Optional[float], typer.Option("--limit", min=0.001, metavar="SECONDS", help="End a run that takes longer; its point has "
                                                "failed.")]
Retries = Annotated[int, typer.Option(min=0, help="Further tries of a run whose process or worker was ended from outside.")]
