"""`vitro characterize`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, Plugins
from ..errors import ConfigError
from . import characterize as probing
from . import cross_fidelity


def characterize(device: Annotated[Path, typer.Argument(metavar="DEVICE.yaml")],
                 only: Annotated[Optional[str], typer.Option(metavar="PART", help="dram, ufs, cpu, npu, ane, gpu or power.")] = None,
                 sensitivity: Annotated[bool, typer.Option("--sensitivity", help="Move each assumed parameter by 20 % both ways and "
                                                           "show how far the rows follow. Minutes.")] = False,
                 twins: Annotated[bool, typer.Option("--cross-fidelity", help="Instead: the flow models beside their detailed "
                                                     "twins, 5 % allowed. A minute or two.")] = False,
                 plugins: Plugins = None, as_json: Json = False):
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
            show, answer = cross_fidelity.show, cross_fidelity.cross_fidelity(device, only=only, progress=report)
        else:
            show, answer = probing.show, probing.characterize(device, only=only, sensitivity=sensitivity, progress=report)
    if as_json:
        terminal.print_json(answer)
    else:
        show(answer)
