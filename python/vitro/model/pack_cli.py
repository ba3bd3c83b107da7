"""`vitro pack`: a model laid out for one way of reading it."""
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from ..base import outputs, terminal
from ..errors import ConfigError
from . import files

LAYOUTS = ("auto", "scales_resident", "scales_inline", "bundles", "bundles_two_phase", "apart", "apart_two_phase", "rows", "tiled", "lut")


def pack(model: Annotated[Optional[Path], typer.Argument(metavar="MODEL.gguf")] = None,
         target: Annotated[Optional[Path], typer.Argument(metavar="OUT.vpack")] = None,
         layout: Annotated[str, typer.Option(metavar="|".join(LAYOUTS), help="How matrices lie. rows, tiled (for int8 activations), lut "
                                             "(the same, by look-up where a format has that); "
                                             "or Gate, Up and Down of one neuron side by side: bundles in one read, two_phase with Gate in "
                                             "pages of its own, scales_inline 4-bit rows in two phases side by side, scales_resident 4-bit "
                                             "rows without their scales, which stay in DRAM; or apart: neuron by neuron, but matrix after "
                                             "matrix. auto: scales_resident for q4_0, else bundles.")] = "auto",
         order: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Hot neurons first, as a recording (vitro profile) "
                                                       "or PowerInfer's gpuidx file says.")] = None,
         verify: Annotated[bool, typer.Option("--verify", help="Read the file and check every byte of it; alone with a packed file, "
                                              "only that.")] = False,
         as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False):
    """Pack a model into a file of its own, for `model: {gguf: MODEL.gguf, pack: OUT.vpack}` in an experiment.

    Examples:

        vitro pack model.gguf model.vpack

        vitro pack model.q4_0.gguf model.vpack --layout scales_inline

        vitro pack model.gguf model.vpack --layout bundles --order model.generated.gpuidx --verify

        vitro pack --verify model.vpack
    """
    answer: dict[str, Any]
    if model is None or (target is None and not verify):
        raise ConfigError("pack needs MODEL.gguf and OUT.vpack (or --verify FILE.vpack)")
    if target is None:
        target, answer = model, {"path": str(model)}
    else:
        if layout not in LAYOUTS:
            raise ConfigError(f'--layout: there is no "{layout}" (there are {", ".join(LAYOUTS)})')
        outputs.file(target, "OUT.vpack")
        with terminal.progress("pack") as report:
            answer = files.pack(model, target, layout, order=order, progress=report)
    if verify:
        with terminal.progress("verify") as report:
            files.verify_packed(target, progress=report)
        answer["verified"] = True
    if as_json:
        terminal.print_json(answer)
        return
    if "tensors" in answer:
        _print_layout(answer)
    if verify:
        print(f"{target}: every byte is as it was written")


def _print_layout(answer):
    """One line per kind of tensor, in file order."""
    kinds = {}
    for tensor in answer["tensors"]:
        kinds.setdefault((tensor["role"], tensor["format"], _form(tensor)), []).append(tensor)
    rows = []
    for (role, kind, form), tensors in kinds.items():
        stored, weights = (sum(tensor[key] for tensor in tensors) for key in ("bytes", "weight_bytes"))
        rows.append((role, len(tensors), kind, form, tensors[0]["offset"], terminal.size(stored), f"{1 - weights / stored:.1%}"))
    order = ", hot neurons first" if answer["ordered"] else ""
    terminal.table(f"{answer['path']}: {terminal.size(answer['bytes'])}{order}",
                   ["what", ">tensors", "format", "layout", ">first at", ">size", ">padding"], rows)


def _form(tensor):
    if "block_bytes" not in tensor:
        return tensor["layout"]
    block = terminal.size(tensor["block_bytes"])
    if tensor["bundles_per_block"] > 1:
        return f"{tensor['bundles_per_block']} bundles per {block}"
    if not tensor["first_part_bytes"]:
        return f"bundles of {block}"
    return f"bundles of {terminal.size(tensor['first_part_bytes'])} + {terminal.size(tensor['block_bytes'] - tensor['first_part_bytes'])}"
