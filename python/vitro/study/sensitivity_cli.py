"""`vitro sensitivity`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, Limit, NoCode, On, Plugins, Retries, Sets, Workers
from ..execute.task import Limits
from ..policy.files import Policies, load
from .sensitivity import READING, nothing_moves, table
from .sensitivity import sensitivity as run_sensitivity
from .table import as_records


def sensitivity(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
                out: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Folder for sensitivity.csv and the store of the runs.")]
                = None,
                method: Annotated[str, typer.Option(metavar="morris|sobol", help="Which ones matter, or what share of the variance is due "
                                                    "to each.")] = "morris",
                samples: Annotated[Optional[int], typer.Option(metavar="N", help="Paths of morris (4), base samples of sobol.")] = None,
                band: Annotated[float, typer.Option(metavar="SHARE", help="How far each parameter may be off.")] = 0.2,
                parameters: Annotated[Optional[list[str]], typer.Option("--parameter", metavar="PATTERN", help="Move only these, such as "
                                                                        "'ufs.*'; may be repeated.")] = None,
                metrics: Annotated[Optional[list[str]], typer.Option("--metric", metavar="NAME", help="May be repeated.")] = None,
                most: Annotated[int, typer.Option("--most", min=1, help="How many parameters the tables show.")] = 10,
                seed: Annotated[int, typer.Option(min=0)] = 1, workers: Workers = None, on: On = "local",
                resume: Annotated[bool, typer.Option("--resume", help="Take what has run from the store of DIR.")] = False,
                limit: Limit = None, retries: Retries = 1, sets: Sets = None, policies: Policies = None, plugins: Plugins = None,
                no_code: NoCode = False, as_json: Json = False):
    """Which assumed parameters of the device matter for this experiment: all of them are moved together, within their bands.

    Examples:

        vitro sensitivity experiments/offload.yaml

        vitro sensitivity experiments/offload.yaml --method sobol --parameter 'ufs.*' --metric decode_tokens_per_s --out out/flash
    """
    with terminal.progress(experiment.stem) as report:
        frame = run_sensitivity(experiment, out=out, method=method, samples=samples, band=band, parameters=parameters or (),
                                metrics=metrics or (), workers=workers, on=on, resume=resume, limits=Limits(limit, retries), overrides=sets,
                                seed=seed, policies=load(policies), progress=report)
    facts, shown = frame.attrs, False
    if as_json:
        terminal.print_json({"schema": "vitro.sensitivity/1", **facts, "rows": as_records(frame)})
        return
    for name, value in facts["values"].items():
        columns, cells, hidden = table(frame, name, most)
        if not cells:
            print(nothing_moves(name, method))
            continue
        shown = True
        low, high = map(terminal.number, facts["ends"][name])
        terminal.table(f"{name}: {terminal.number(value)}; {low} to {high} in {facts['runs']} runs, parameters off by up to "
                       f"{facts['band']:.0%}", columns, cells, caption=f"parameters with less effect: {hidden}" if hidden else None)
    if shown:
        print(READING[method])
    if facts["fixed"]:
        print(f"not moved, since the device file does not state them: {', '.join(facts['fixed'])}")
