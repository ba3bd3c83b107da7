"""The `vitro validate` command, and what it prints."""
import contextlib
import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import outputs, process, terminal
from ..base.options import NoCode, On
from ..base.trees import flatten
from ..base.whole_files import in_place
from ..calibrate.measure import Calibration
from ..errors import ConfigError
from . import ablation, energy
from .compare import validate
from .suite import load


def command(suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml")],
            device: Annotated[Path, typer.Option(metavar="DEVICE.yaml", help="Written by `vitro calibrate` on this machine.")],
            out: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Folder for report.html, validate.json and traces.")] = None,
            host_results: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Results from another machine (vitro bundle), "
                                                                 "in place of runs here.")] = None,
            cells: Annotated[int, typer.Option(min=1, metavar="N", help="With --host-results: cells of the battery in series, of which the "
                                               "system shows the voltage of one.")] = 1,
            runs: Annotated[int, typer.Option(min=1, help="Real runs of each experiment; the median counts.")] = 5,
            only: Annotated[Optional[str], typer.Option(metavar="TEXT", help="Experiments whose id contains this.")] = None,
            record: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Keep the outcome for later judgements, without "
                                                           "weights and traces.")] = None,
            measure: Annotated[bool, typer.Option("--calibrate", help="Measure the device between the rounds of runs and write it to "
                                                  "--device, so that both see the machine in the same states.")] = False,
            realtime: Annotated[bool, typer.Option("--realtime", help="Before all other processes of this machine: needs root.")] = False,
            on: On = "local", no_code: NoCode = False,
            as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False):
    """Run a suite on this machine and on its simulation, and compare them. Exit code 1 when a bound of the suite does not hold.

    Examples:

        vitro validate experiments/validation/small.yaml --device host.yaml

        vitro validate experiments/validation/suite.yaml --device host.yaml --calibrate --out out/validate

        vitro validate experiments/validation/suite.yaml --device phone.yaml --host-results results/
    """
    if measure and host_results:
        raise ConfigError("--calibrate: can not be combined with --host-results, since nothing runs on the host (expected one of the two)")
    if measure:
        outputs.file(device, "--device")
    if realtime:
        process.realtime()
    with terminal.progress("models") as report:
        wanted = load(suite, make=True, progress=report)
    if only:
        kept = [case for case in wanted.cases if only in case.id]
        if not kept:
            raise ConfigError(f'--only: no experiment of {suite} contains "{only}"')
        wanted = type(wanted)(wanted.name, kept, {key: value for key, value in wanted.bounds.items() if key.endswith("_equal")})
    with terminal.progress(wanted.name) as report, contextlib.ExitStack() as stack:
        calibration = stack.enter_context(Calibration()) if measure else None
        answer = validate(wanted, device, runs=runs, out=out, host_results=host_results, calibration=calibration, progress=report,
                          cells=cells, on=on, keep_device=device if measure else None)
    if out:
        from .report import write_report
        out.mkdir(parents=True, exist_ok=True)
        with in_place(out / "validate.json") as unfinished:
            unfinished.write_text(json.dumps(answer, indent=1) + "\n")
        page = write_report(answer, out)
    if record:
        ablation.record(answer, wanted.cases, device, record)
    if as_json:
        terminal.print_json(answer)
    else:
        show(answer)
        if out:
            print(f"report: {page}")
    if not all(bound["holds"] for bound in answer["summary"]["bounds"]):
        raise typer.Exit(1)


def show(answer):
    worst = sorted(answer["rows"], key=lambda row: -abs(row["relative_error"]["decode_tokens_per_s"] or 0))
    cells = [(row["id"], terminal.number(row["host"]["decode_tokens_per_s"]), terminal.number(row["sim"]["decode_tokens_per_s"]),
              *("–" if error is None else f"{error:+.1%}" for error in map(
                  flatten(row["relative_error"]).get, ("decode_tokens_per_s", "prefill_tokens_per_s", "token_latency_ms.p90"))),
              "–" if row["host_against_host"] is None else f"{row['host_against_host']:.1%}",
              "equal" if row["tokens_equal"] and row["bytes_equal"] and (row["decisions"] or {"equal": True})["equal"] else "differs")
             for row in worst]
    s = answer["summary"]
    percent = lambda value: "–" if value is None else f"{value:.1%}"
    terminal.table(f"{answer['suite']}: host and {answer['device']}",
                   ["experiment", ">host tokens/s", ">sim", ">decode", ">prefill", ">P90", ">host again", "decisions"], cells,
                   caption=f"decode {percent(s['mape_decode'])} off in the mean, P90 {percent(s['mape_p90'])}, host against host "
                   f"{percent(s['host_against_host'])}, {percent(s['rank_agreement'])} of {s['pairs']} pairs ordered alike, "
                   f"{percent(s['inside_band'])} inside the band")
    show_energy(answer["rows"], answer["device"])
    for row in answer["rows"]:
        for note in row["notes"]:
            print(f"note: {row['id']}: {note}")
    if s["why"]:
        print(s["why"])
    for bound in s["bounds"]:
        if not bound["holds"]:
            print(f"does not hold: {bound['bound']} is {bound['measured']}, expected {bound['limit']}")


def show_energy(rows, device):
    """Measured beside simulated. Notes say why nothing was measured."""
    cells = [(name, *("–" if value is None else f"{value:+.1%}" if column == "off" else terminal.number(value)
                      for column, value in zip(energy.COLUMNS, values)), *values[len(energy.COLUMNS):])
             for name, *values in energy.table(rows)]
    if cells:
        terminal.table(f"energy: measured and {device}", ["experiment", *(f">{name}" for name in energy.COLUMNS), "by", "sign"], cells)
