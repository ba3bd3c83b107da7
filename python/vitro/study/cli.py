"""`vitro sweep`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, Limit, NoCode, On, Plugins, Retries, Sets, Workers
from ..base.origins import with_origins
from ..errors import ConfigError
from ..execute.task import Limits
from ..policy import bring
from ..policy.files import Policies, load
from ..running import experiments
from .sweep import sweep as run_sweep
from .table import as_records, readable


def points_of(trace: list[str] | None) -> list[int]:
    for word in trace or []:
        if not word.isdecimal():
            raise ConfigError(f"--trace: {word} (expected the number of a point, or all)")
    return [int(word) for word in trace or []]


def sweep(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
          out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.parquet, results.csv and report.html.")],
          workers: Workers = None, on: On = "local",
          dask: Annotated[Optional[str], typer.Option(metavar="ADDRESS", help="The same as --on dask:ADDRESS.")] = None,
          resume: Annotated[bool, typer.Option("--resume", help="Keep the points that are done.")] = False,
          adopt: Annotated[bool, typer.Option("--adopt", help="With --resume: take points of vitro before its store as today's.")] = False,
          trace: Annotated[Optional[list[str]], typer.Option(metavar="POINT|all", help="Also run this point with a trace, in DIR/traces; "
                                                             "may be repeated.")] = None,
          limit: Limit = None, retries: Retries = 1,
          machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
          sets: Sets = None, policies: Policies = None,
          twice: Annotated[bool, typer.Option("--twice", help="Run each point again, and fail where a policy decides otherwise.")] = False,
          plugins: Plugins = None, no_code: NoCode = False, as_json: Json = False):
    """Run every point of the experiment's `sweep:`.

    Examples:

        vitro sweep experiments/quickstart.yaml --out out/quickstart

        vitro sweep experiments/quickstart.yaml --out out/quickstart --workers 4 --resume

        vitro sweep experiments/quickstart.yaml --out out/quickstart --on dask:tcp://scheduler:8786

        vitro sweep experiments/quickstart.yaml --out out/quickstart --on slurm:cluster.yaml --limit 600 --resume

        vitro sweep experiments/quickstart.yaml --out out/quickstart --resume --trace 3
    """
    brought = load(policies)
    with terminal.progress(experiment.stem) as report:
        frame = run_sweep(experiment, out=out, workers=workers, on=on, dask=dask, resume=resume, adopt=adopt, overrides=sets,
                          machine=machine, policies=brought, twice=twice, traces="all" if trace == ["all"] else points_of(trace),
                          limits=Limits(limit, retries), progress=report,
                          checking=report.of(f"{experiment.stem}, checking points"))
    failed = frame[frame["status"] == "failed"]
    if as_json:
        terminal.print_json({"schema": "vitro.sweep/1", "out": str(out), "rows": as_records(frame)})
    else:
        with with_origins(lambda: experiments.compose(experiment, overrides=[*(sets or []), *bring.overrides(brought)]).origins):
            table = readable(frame)
        terminal.table(f"{experiment.stem}: {len(frame)} points", *table)
        print(f"report: {out / 'report.html'}")
    for told in frame.attrs["traces"]:
        terminal.say(f"trace of point {told['point']}: {told['error'] or told['folder']}" + (
            "" if told["same"] or told["error"] else " (with other events than the row's: a host's runs differ)"))
    if len(failed):
        first = failed.iloc[0]
        terminal.say(f"vitro: {len(failed)} of {len(frame)} points failed; the first one (point {first['point']}): {first['error']}")
        raise typer.Exit(1)
    if (frame["status"] == "off").any() or any(told["error"] for told in frame.attrs["traces"]):
        raise typer.Exit(1)
