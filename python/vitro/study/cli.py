"""`vitro sweep`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, Plugins, Sets
from ..base.origins import with_origins
from ..running import experiments
from .sweep import sweep as run_sweep
from .table import as_records, readable


def sweep(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
          out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.parquet, results.csv and report.html.")],
          workers: Annotated[Optional[int], typer.Option(min=1, help="Runs at a time. Default: all cores for sim, 1 for host, where "
                                                         "runs would disturb each other.")] = None,
          dask: Annotated[Optional[str], typer.Option(metavar="ADDRESS", help="Run on a Dask cluster instead.")] = None,
          resume: Annotated[bool, typer.Option("--resume", help="Keep the points that are done.")] = False,
          machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
          sets: Sets = None, plugins: Plugins = None, as_json: Json = False):
    """Run every point of the experiment's `sweep:`.

    Examples:

        vitro sweep experiments/quickstart.yaml --out out/quickstart

        vitro sweep experiments/quickstart.yaml --out out/quickstart --workers 4 --resume

        vitro sweep experiments/quickstart.yaml --out out/quickstart --dask tcp://scheduler:8786
    """
    with terminal.progress(experiment.stem) as report:
        frame = run_sweep(experiment, out=out, workers=workers, dask=dask, resume=resume, overrides=sets, machine=machine,
                           progress=report)
    failed = frame[frame["status"] == "failed"]
    if as_json:
        terminal.print_json({"schema": "vitro.sweep/1", "out": str(out), "rows": as_records(frame)})
    else:
        with with_origins(lambda: experiments.compose(experiment, overrides=sets).origins):
            table = readable(frame)
        terminal.table(f"{experiment.stem}: {len(frame)} points", *table)
        print(f"report: {out / 'report.html'}")
    if len(failed):
        first = failed.iloc[0]
        terminal.say(f"vitro: {len(failed)} of {len(frame)} points failed; the first one (point {first['point']}): {first['error']}")
        raise typer.Exit(1)
    if (frame["status"] == "off").any():
        raise typer.Exit(1)
