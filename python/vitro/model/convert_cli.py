"""`vitro convert`: a model as other tools export it, made into a GGUF file."""
from pathlib import Path
from typing import Annotated

import typer

from ..base import outputs, terminal
from . import convert as converter

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def convert(source: Annotated[Path, typer.Argument(metavar="FOLDER", help="config.json, *.safetensors in GPTQ, and a tokenizer.")],
            target: Annotated[Path, typer.Argument(metavar="OUT.gguf")],
            act_order: Annotated[str, typer.Option("--act-order", metavar="codes|f16|f32", help="What to write of matrices whose groups do "
                                                   "not lie side by side (desc_act): codes with an order of columns, or values."
                                                   )] = converter.CODES,
            round_scales: Annotated[bool, typer.Option("--round-scales", help="Round scales that are no float16, as of models quantised in "
                                                       "float32. Default: refuse them.")] = False,
            as_json: Json = False):
    """Make a GGUF file of a model in GPTQ, with the codes, scales and zero points that it has.

    Examples:

        vitro convert Qwen2-0.5B-Instruct-GPTQ-Int4 qwen2-0.5b.gptq.gguf

        vitro convert Llama-2-7B-GPTQ llama-2-7b.gptq.gguf --act-order f16 --json
    """
    outputs.file(target, "OUT.gguf")
    with terminal.progress("convert") as report:
        answer = converter.convert(source, target, act_order=act_order, round_scales=round_scales, progress=report)
    answer |= {"target": str(target), "target_bytes": target.stat().st_size}
    if as_json:
        terminal.print_json(answer)
    else:
        print(f"{target}: {terminal.size(answer['target_bytes'])}, {answer['matrices']} matrices of {answer['bits']} bits"
              + (f", {answer['ordered']} of them with columns in an order of their own" if answer["ordered"] else "")
              + (f", {answer['as_values']} as values in {act_order}" if answer["as_values"] else ""))
