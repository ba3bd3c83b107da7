"""`vitro search`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, Limit, NoCode, On, Plugins, Retries, Sets, Workers
from ..errors import RunError
from ..execute.task import Limits
from ..policy.files import Policies, load
from . import compared
from .search import search as run_search
from .table import as_records, written


def search(study: Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="An experiment whose `sweep:` is a search.")],
           out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.parquet, front.csv, report.html and the store.")],
           trials: Annotated[Optional[int], typer.Option(min=1, help="How many points, over the file's own.")] = None,
           workers: Workers = None, on: On = "local",
           resume: Annotated[bool, typer.Option("--resume", help="Take what has run from the store, and go on.")] = False,
           limit: Limit = None, retries: Retries = 1,
           machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
           sets: Sets = None, policies: Policies = None, plugins: Plugins = None, no_code: NoCode = False, as_json: Json = False):
    """Search a space for the points that are best by several metrics, and print their front.

    Examples:

        vitro search experiments/search.yaml --out out/search

        vitro search experiments/search.yaml --out out/search --trials 128 --resume
    """
    with terminal.progress(study.stem) as report:
        frame = run_search(study, out=out, workers=workers, on=on, resume=resume, trials=trials, limits=Limits(limit, retries),
                           overrides=sets, machine=machine, policies=load(policies), progress=report)
    best = frame[frame["front"]]
    objectives, rows = frame.attrs["objectives"], frame.attrs["compared"]
    if as_json:
        terminal.print_json({"schema": "vitro.search/1", "out": str(out), "objectives": objectives, "rows": as_records(frame),
                             "front": [int(point) for point in best["point"]], "compared": rows})
    else:
        keys = frame.attrs["keys"]
        first, way = next(iter(objectives.items()))
        cells = [[row["point"], *(written(row[key]) for key in keys), *(terminal.number(row[name]) for name in objectives)]
                 for row in as_records(best.sort_values(first, ascending=way == "minimize"))]
        terminal.table(f"{study.stem}: {len(best)} of {len(frame)} points on the front",
                       ["point", *keys, *(f">{name}" for name in objectives)], cells,
                       caption=", ".join(f"{name}: {way}" for name, way in objectives.items()))
        if tokens := frame.attrs.get("tokens"):
            print(f"pruned: {int(frame['pruned'].sum())} of {len(frame)} points; {tokens['generated']} tokens were generated, "
                  f"{tokens['without']} without short runs")
        if rows:
            print()
            terminal.table("compared with the front", *compared.readable(rows, objectives), caption=compared.EXPLAINED)
        print(f"report: {out / 'report.html'}, front: {out / 'front.csv'}" + (f", compared: {out / 'compared.csv'}" if rows else ""))
    if not len(best):
        raise RunError(f"{study}: none of {len(frame)} points holds all constraints and ran (see {out / 'report.html'})")
    if failed := [row for row in rows if row["status"] == "failed"]:
        raise RunError(f"{study}: {failed[0]['label']}, which was to be compared, failed: {failed[0]['error']}")
