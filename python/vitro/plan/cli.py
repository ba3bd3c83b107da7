"""`vitro plan`: an execution plan for one model on one device."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import outputs, terminal
from ..base.inputs import existing
from ..base.options import NoCode
from ..base.whole_files import in_place
from ..errors import ConfigError
from .planner import make_plan
from .text import text_of


def plan(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf|.yaml")],
         device: Annotated[Path, typer.Option(metavar="DEVICE.yaml", help="What is planned for.")],
         out: Annotated[Path, typer.Option("-o", "--out", metavar="PLAN.yaml")],
         profile: Annotated[Optional[Path], typer.Option(metavar="P", help="A recording by `vitro profile`, or a YAML file with `profile:` "
                                                         "or `engine.profile`. Without one: the model file's own.")] = None,
         sets: Annotated[Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="memory.* and engine.* as in a run.")] = None,
         cores: Annotated[Optional[str], typer.Option(metavar="cpu0,cpu1,...", help="Cores that compute; else the planner "
                                                      "chooses.")] = None,
         accelerator: Annotated[Optional[str], typer.Option(metavar="UNIT", help='Its name; "none" for cores alone. On sim npu where there '
                                                            "is one.")] = None,
         machine: Annotated[str, typer.Option(help="sim: probe the device's models. host: probe this machine, which the device file "
                                              "describes.")] = "sim",
         hottest_first: Annotated[bool, typer.Option("--hottest-first", help="The run takes a pack made with `vitro pack --order P`; else "
                                                     "neurons lie as in the model.")] = False,
         storage_file: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Host: a large file to probe reads with. Without one: "
                                                              "MODEL.gguf.")] = None,
         apart: Annotated[Optional[str], typer.Option(metavar="none|layers|experts", help="Whose hot shares may differ, where a recording "
                                                      "or a profile tells them apart. Without it: layers, and of a mixture none.")] = None,
         no_code: NoCode = False,
         as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False):
    """Choose which neurons, heads and cores do what (PowerInfer-2, section 5), from probes and an activation profile.

    Examples:

        vitro plan model.gguf --device configs/devices/oneplus12.yaml --profile model.vtrc -o plan.yaml

        vitro plan model.yaml --device configs/devices/oneplus12.yaml --set memory.ffn_in_dram=50% -o plan.yaml

        vitro run experiment.yaml --set engine.plan=plan.yaml
    """
    if machine not in ("sim", "host"):
        raise ConfigError(f'--machine: "{machine}" is neither sim nor host')
    if apart not in (None, "none", "layers", "experts"):
        raise ConfigError(f'--apart: "{apart}" is neither none, layers nor experts')
    outputs.file(out, "--out")
    model, device = Path(existing(model)), Path(existing(device))
    if machine == "host":
        storage_file = storage_file or (model if model.suffix == ".gguf" else None)
        if storage_file is None or not storage_file.is_file():
            raise ConfigError("--storage-file: is missing: machine: host needs a file to read, at least as large as the weights (a model "
                              "with weights is one itself)")
    for item in sets or ():
        if not item.startswith(("memory.", "engine.")) or "=" not in item:
            raise ConfigError(f'--set: "{item}" has no effect on a plan (expected memory.KEY=VALUE or engine.KEY=VALUE)')
    with terminal.progress("plan") as report:
        found = make_plan(model, device=device, profile=profile, overrides=sets or (), cores=cores.split(",") if cores else None,
                          accelerator="" if accelerator == "none" else accelerator, machine=machine, hottest_first=hottest_first,
                          storage_file=storage_file, progress=report, apart=apart)
    with in_place(out) as unfinished:
        unfinished.write_text(text_of(found))
    if as_json:
        terminal.print_json(found)
        return
    splits = found["engine"].get("hybrid", {}).get("splits", [])
    shares = {split["batch"]: split for split in splits}
    rows = [(row["batch"], *(shares[row["batch"]][key]["value"] if shares else "0%" for key in ("hot", "attention", "head")),
             row["step"], row["tokens_per_s"]) for row in found["predicted"]]
    terminal.table(str(out), [">batch", ">hot neurons", ">attention", ">head", ">step predicted", ">tokens/s predicted"], rows)
