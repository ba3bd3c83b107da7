"""`vitro calibrate`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import outputs, process, terminal
from .measure import calibrate, write


def command(out: Annotated[Path, typer.Option(metavar="DEVICE.yaml", help="The device file to write.")],
            storage: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Folder on the storage to be measured. Default: where "
                                                            "packed models are kept.")] = None,
            quick: Annotated[bool, typer.Option("--quick", help="Under a minute: two passes, less memory, fewer probes.")] = False,
            realtime: Annotated[bool, typer.Option("--realtime", help="Before all other processes of this machine: needs root.")] = False,
            as_json: Annotated[bool, typer.Option("--json", help="Print what was measured as one JSON object.")] = False):
    """Measure this machine and write it as a device file.

    Examples:

        vitro calibrate --out host.yaml

        vitro calibrate --out host.yaml --storage /data --quick
    """
    outputs.file(out, "--out")
    if realtime:
        process.realtime()
    with terminal.progress("calibrate") as report:
        device = calibrate(storage=storage, quick=quick, progress=report)
    write(device, out)
    made = device["calibration"]
    if as_json:
        terminal.print_json({"schema": "vitro.calibration/1", "device": str(out)} | made)
        return
    worst = sorted(made["residuals"].items(), key=lambda item: -abs(item[1]))[:8]
    terminal.table(f"{out}: {device['description']}", ["probe", ">measured", ">spread", ">model"],
                   [(name, terminal.number(made["measured"][name]["value"]), f"{made['measured'][name]['spread']:.1%}", f"{error:+.1%}")
                    for name, error in worst], caption="where the device's models are farthest from what was measured")
    for text in made["skipped"]:
        print(f"skipped: {text}")
    if not made["stable"]:
        terminal.say(f"vitro: the machine is too noisy: after {made['passes']} passes one of ten probes or more still moves by over "
                     f"{made['stable_within']:.0%}. The file says how far each did.")
