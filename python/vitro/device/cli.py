"""`vitro characterize` and `vitro tiles`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, NoCode, On, Plugins, Workers
from ..errors import ConfigError
from . import characterize as probing
from . import cross_fidelity
from . import tiles as solving


def characterize(device: Annotated[Path, typer.Argument(metavar="DEVICE.yaml")],
                 only: Annotated[Optional[str], typer.Option(metavar="PART", help="dram, ufs, cpu, npu, ane, gpu or power.")] = None,
                 sensitivity: Annotated[bool, typer.Option("--sensitivity", help="Move each assumed parameter by 20 % both ways and "
                                                           "show how far the rows follow. Minutes.")] = False,
                 twins: Annotated[bool, typer.Option("--cross-fidelity", help="Instead: the flow models beside their detailed "
                                                     "twins, 5 % allowed. A minute or two.")] = False,
                 workers: Workers = None, on: On = "local", plugins: Plugins = None, no_code: NoCode = False, as_json: Json = False):
    """The device models' own microbenchmarks beside the published values.

    Examples:

        vitro characterize configs/devices/oneplus12.yaml

        vitro characterize configs/devices/oneplus12.yaml --only ufs --json

        vitro characterize configs/devices/oneplus12.yaml --only dram --sensitivity

        vitro characterize configs/devices/oneplus12.yaml --cross-fidelity
    """
    if twins and sensitivity:
        raise ConfigError("--cross-fidelity: compares models, --sensitivity moves parameters (expected one of the two)")
    with terminal.progress("characterize") as report:
        if twins:
            show, answer = cross_fidelity.show, cross_fidelity.cross_fidelity(device, only=only, on=on, workers=workers,
                                                                                     progress=report)
        else:
            show, answer = probing.show, probing.characterize(device, only=only, sensitivity=sensitivity, on=on, workers=workers,
                                                               progress=report)
    if as_json:
        terminal.print_json(answer)
    else:
        show(answer)


def tiles(shape: Annotated[str, typer.Option(metavar="E,H,L",
                                             help="Rows of activations, rows of weights, columns.")] = solving.DEFAULT_SHAPE,
          isa: Annotated[Optional[str], typer.Option(metavar="NAME", help="One instruction or kernel set, such as smmla or avx2.")] = None,
          device: Annotated[Optional[Path], typer.Option(metavar="DEVICE.yaml", help="Those of this device's cores.")] = None,
          as_json: Json = False):
    """Tiles of a matrix product in vector registers: the choice for each instruction, the registers that it fills, and accesses to memory
    without tiles and with them.

    Examples:

        vitro tiles

        vitro tiles --device configs/devices/xiaomi14.yaml --shape 256,3584,3584

        vitro tiles --isa avx2 --json
    """
    rows = solving.solve(shape, isa=isa, device=device)
    if as_json:
        terminal.print_json({"schema": "vitro.tiles/1", "rows": rows})
    else:
        solving.show(shape, rows)
