"""`vitro tasks`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, NoCode, On, Plugins, Sets, Workers
from ..policy.files import Policies, load
from .table import as_records
from .tasks import GOLD, NUMBER
from .tasks import tasks as run_tasks


def tasks(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
          file: Annotated[Path, typer.Argument(metavar="TASKS.jsonl", help="One JSON object a line, with an `answer`.")],
          out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.csv, answers.csv, accuracy.png and the runs.")],
          template: Annotated[str, typer.Option(help="The prompt, with fields of a line in braces.")] = "{prompt}",
          gold: Annotated[str, typer.Option(metavar="REGEX", help="Finds what is right in `answer`. Default: what is behind ####.")] = GOLD,
          answer: Annotated[str, typer.Option(metavar="REGEX", help="Finds the answer in what was generated: the first group of the last "
                                                                    "match. Default: the last number.")] = NUMBER,
          check: Annotated[Optional[str], typer.Option(metavar="PROGRAM", help="Judges instead: reads {task, text} as JSON, exits with 0 "
                                                                               "(right) or 1 (wrong).")] = None,
          limit: Annotated[Optional[int], typer.Option(min=1, help="The first so many tasks alone.")] = None,
          workers: Workers = None, on: On = "local",
          resume: Annotated[bool, typer.Option("--resume", help="Keep the runs that are done.")] = False,
          machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
          sets: Sets = None, policies: Policies = None, plugins: Plugins = None, no_code: NoCode = False, as_json: Json = False):
    """Answer a file of tasks at every point of the experiment's `sweep:`: accuracy against latency and energy.

    Examples:

        vitro tasks experiments/scaling/recall.yaml experiments/scaling/recall.jsonl --answer "^\\W*(\\w+)" --out out/recall

        vitro tasks EXP.yaml gsm8k.jsonl --template "Question: {question} Answer:" --limit 100 --out out/gsm8k
    """
    with terminal.progress(file.stem) as report:
        frame = run_tasks(experiment, file, out=out, template=template, gold=gold, answer=answer, check=check, limit=limit, workers=workers,
                          on=on, resume=resume, overrides=sets, machine=machine, policies=load(policies), progress=report)
    if as_json:
        terminal.print_json({"schema": "vitro.tasks/1", "out": str(out), "rows": as_records(frame)})
        return
    columns = ["point", ">accuracy", ">latency ms", ">energy J", ">tokens"]
    rows = [[row["point"], f"{row['accuracy']:.0%} ± {row['standard_error']:.0%}", terminal.number(row["latency_ms"]),
             terminal.number(row["energy_j"]), terminal.number(row["tokens"])] for row in as_records(frame)]
    terminal.table(f"{file.name}: {frame['tasks'].iloc[0]} tasks", columns, rows, caption=f"picture: {out / 'accuracy.png'}")
