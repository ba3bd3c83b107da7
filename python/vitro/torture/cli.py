"""`vitro torture`."""
import json
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import checkout, terminal, whole_files
from ..base.inputs import existing
from ..base.options import Json
from ..errors import ConfigError

READING = ("cases: that the fault struck; operations: that it struck in them; beside: the run failed, but for another fault, as this one "
           "loses nothing")


def torture(seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many cases.")] = 300,
            first: Annotated[int, typer.Option("--from", min=0, help="The first seed.")] = 0,
            hours: Annotated[Optional[float], typer.Option("--hours", min=0.0001, help="End after this time, whatever is left.")] = None,
            machine: Annotated[str, typer.Option("--machine", metavar="virtual|sim|host")] = "virtual",
            jobs: Annotated[int, typer.Option("--jobs", min=1, help="Cases at a time.")] = 1,
            limit: Annotated[float, typer.Option("--limit", min=1, metavar="SECONDS", help="A run that takes longer hangs.")] = 60,
            replay: Annotated[Optional[Path], typer.Option("--replay", metavar="FILE", help="Run the case in this file again.")] = None,
            shrink: Annotated[bool, typer.Option("--shrink", help="Look for the fewest faults with which a case is still wrong.")] = False,
            out: Annotated[Path, typer.Option("--out", help="The folder for cases that went wrong.")] = Path("out/torture"),
            as_json: Json = False):
    """Drawn configurations over random models, on a machine that goes wrong as drawn schedules say (docs/design/faults.md).

    Each case has to end with the tokens of its undisturbed run, or with an error that names its cause, and to leave an engine that goes on.
    A shadow model beside the caches has to agree with them: what calls compute with was read, wholly and without an error.
    The table has a row per kind of fault: cases that it struck, operations that it struck in them, and how these cases ended: recovered;
    failed, with an error that names its cause; beside: failed for another fault, as this kind loses nothing; WRONG. Exit code 1 when a
    case went wrong; it is then a file that `--replay` takes.

    Examples:

        vitro torture --seeds 1000 --shrink

        vitro torture --replay out/torture/virtual-seed-17.json
    """
    from . import swarm
    if machine not in ("virtual", "sim", "host"):
        raise ConfigError(f"--machine {machine}: is no machine (expected virtual, sim or host)")
    device = str(checkout.root() / "configs" / "devices" / "oneplus12.yaml") if machine == "sim" else None
    with tempfile.TemporaryDirectory(prefix="vitro-torture-") as folder:
        if replay is not None:
            tally = swarm.Tally()
            case = _case_in(replay)
            machine = case.get("machine", "virtual")
            tally.take(swarm.run(case, folder, limit))
        else:
            with terminal.progress("torture") as report:
                tally = swarm.run_seeds(range(first, first + seeds), machine, device, folder, jobs=jobs, limit_s=limit,
                                        until_s=hours and hours * 3600, seen=lambda seen: report(sum(seen.cases.values()), seeds))
        files = [_keep(verdict, out, folder, limit, shrink) for verdict in tally.wrong]
    rows = tally.rows()
    names = ("fault", "cases", "operations", "recovered", "failed", "beside", "wrong")
    if as_json:
        terminal.print_json({"schema": "vitro.torture/1", "machine": machine, "cases": tally.cases, "refusals": tally.refusals,
                             "shadow": tally.shadow, "faults": [dict(zip(names, row)) for row in rows],
                             "wrong": files})
    else:
        terminal.table("torture", ["fault", ">cases", ">operations", ">recovered", ">failed", ">beside", ">WRONG"],
                       [(row[0], *(str(n) for n in row[1:])) for row in rows], caption=READING)
        print(", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.cases.items())))
        print("held against the shadow model: " + ", ".join(f"{count:,} {what}" for what, count in tally.shadow.items()))
        for verdict, file in zip(tally.wrong, files):
            print(f"seed {verdict['case']['seed']}: {verdict['why']}\n  again: vitro torture --replay {file}")
    if tally.wrong:
        raise typer.Exit(1)


def _case_in(path):
    try:
        case = json.loads(Path(existing(path)).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is no case of a torture run ({error})") from None
    if not isinstance(case, dict) or "seed" not in case:
        raise ConfigError(f"{path}: is no case of a torture run (expected seed, machine, experiment, faults)")
    return case


def _keep(verdict, out, folder, limit, shrink):
    from . import swarm
    case = verdict["case"]
    if shrink and case["faults"]["entries"]:
        case = swarm.shrunk(case, folder, limit)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{case['machine']}-seed-{case['seed']}.json"
    whole_files.put(path, json.dumps(case | {"why": verdict["why"]}, indent=1) + "\n")
    return str(path)
