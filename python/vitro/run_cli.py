"""`vitro run` and `vitro sweep`."""
from functools import partial
from pathlib import Path
from typing import Annotated, Optional

import typer

from . import api, expect, scaling, terminal, validity
from .errors import ConfigError
from .options import Json, Plugins, Sets
from .places import placed


def run(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
        machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
        sets: Sets = None,
        out: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Folder for result.json, trace.json, decisions.jsonl and "
                                                    "report.html.")] = None,
        resolve: Annotated[bool, typer.Option("--resolve", help="Print the experiment as resolved, for vitro-device, and run "
                                              "nothing.")] = False,
        band: Annotated[bool, typer.Option("--band", help="Sim on a calibrated device: two more runs give each metric an error "
                                           "band.")] = False,
        plugins: Plugins = None, as_json: Json = False):
    """Run one experiment.

    Examples:

        vitro run experiments/quickstart.yaml

        vitro run experiments/quickstart.yaml --machine host --set engine.policy=mmap --set "memory.budget=6 MiB" --out out/mmap

        vitro run experiments/quickstart.yaml --json | jq .metrics.decode_tokens_per_s
    """
    if machine not in (None, "sim", "host"):
        raise ConfigError(f'--machine: "{machine}" is neither sim nor host')
    changes = [*(sets or []), *([f"machine={machine}"] if machine else [])]
    resolved = api.resolve(experiment, overrides=changes)
    if resolve:
        terminal.print_json(resolved)
        return
    judging = partial(placed, lambda: api.places(experiment, overrides=changes))
    with judging():
        expect.check(resolved.get("expect"))
    with terminal.progress(experiment.stem) as report:
        result = api.run(experiment, overrides=sets, machine=machine, out=out, progress=report)
    if band:
        result = validity.with_band(result)
    with judging():
        judged = result.expectations
        if as_json:
            terminal.print_json(result.data)
        else:
            _print_run(result, judged)
    if out:
        from .report import write_run
        page = write_run(result, out)
        if not as_json:
            print(f"report: {page}")
    if any(row["status"] == "off" for row in judged):
        raise typer.Exit(1)


def _print_run(result, judged):
    from .result import flatten, named
    metrics = {name: value for name, value in flatten(result.metrics).items() if not isinstance(value, list)}
    rows = [(name, terminal.number(metrics[name])) for name in named(metrics, (result.get("experiment_resolved") or {}).get("metrics"))]
    terminal.table(f"{result['experiment']} on {result.machine}", ["metric", ">value"], rows)
    if (speed := (result.get("prediction_band") or {}).get("decode_tokens_per_s")) is not None:
        print(f"error band of decode: {terminal.number(speed[0])} to {terminal.number(speed[1])} tokens/s")
    if scaled := result.get("scaling"):
        terminal.table(f"{scaled['method']}: {result.metric('scaling.generated_tokens')} tokens in "
                       f"{terminal.number(result.metric('scaling.latency_ms'))} ms, * is chosen", *scaling.rows(scaled))
    if result.text:
        print(result.text.strip())
    for note in result.get("notes", []):
        print(f"note: {note}")
    for row in judged:
        print(f"expect {row['id']}: {row['metric']} {terminal.number(row['measured'])} {row['relation']} "
              f"{terminal.number(row['expected'])}: {row['status']}")


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
    from . import grid
    with terminal.progress(experiment.stem) as report:
        frame = grid.sweep(experiment, out=out, workers=workers, dask=dask, resume=resume, overrides=sets, machine=machine,
                           progress=report)
    failed = frame[frame["status"] == "failed"]
    if as_json:
        terminal.print_json({"schema": "vitro.sweep/1", "out": str(out), "rows": grid.as_records(frame)})
    else:
        with placed(lambda: api.places(experiment, overrides=sets)):
            table = grid.readable(frame)
        terminal.table(f"{experiment.stem}: {len(frame)} points", *table)
        print(f"report: {out / 'report.html'}")
    if len(failed):
        first = failed.iloc[0]
        terminal.say(f"vitro: {len(failed)} of {len(frame)} points failed; the first one (point {first['point']}): {first['error']}")
        raise typer.Exit(1)
    if (frame["status"] == "off").any():
        raise typer.Exit(1)
