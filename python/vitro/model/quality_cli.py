"""`vitro perplexity`, `quantize`, `merge` and `quality`: other weights for a model, and what they cost it."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import native, outputs, terminal
from ..base.inputs import existing
from ..errors import ConfigError
from . import files
from .quality import compare, paired

Sets = Annotated[Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="Override one value; may be repeated.")]
Embedding = Annotated[str, typer.Option("--embedding", metavar="FORMAT", help="Format of the embedding, in place of the scheme's.")]
Output = Annotated[str, typer.Option("--output", metavar="FORMAT", help="Format of the output matrix, in place of the scheme's. One that "
                                     "is tied to the embedding becomes a tensor of its own where their formats differ.")]
Context = Annotated[Optional[int], typer.Option("--context", metavar="TOKENS", min=2, help="Positions of a window in which the text is "
                                                "scored. Default: the model's context.")]
Method = Annotated[str, typer.Option("--method", metavar="round|gptq", help="How codes are chosen: each by itself, or by what a text "
                                     "gives the matrices (GPTQ).")]
Calibration = Annotated[Optional[Path], typer.Option("--calibration", metavar="TEXT", help="For gptq: the text.")]
Damp = Annotated[Optional[float], typer.Option("--damp", min=0, max=1, help="For gptq: added to the moments' diagonal, as a share of its "
                                               f"mean. Default: {files.Gptq.damp}.")]
ActOrder = Annotated[bool, typer.Option("--act-order", help="For gptq: inputs by falling moments, with scales found before.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def gptq_of(method, calibration, damp, act_order):
    """-> files.Gptq, or None."""
    if method not in ("round", "gptq"):
        raise ConfigError(f'--method: "{method}" is unknown (expected round or gptq)')
    if method == "gptq":
        if calibration is None:
            raise ConfigError("--method: gptq needs --calibration TEXT")
        return files.Gptq(calibration, files.Gptq.damp if damp is None else damp, act_order)
    for option, given in (("--calibration", calibration), ("--damp", damp), ("--act-order", act_order or None)):
        if given is not None:
            raise ConfigError(f"{option}: is an option of --method gptq (expected that, or no {option})")
    return None


def perplexity(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")], text: Annotated[Path, typer.Argument(metavar="TEXT")],
               against: Annotated[Optional[Path], typer.Option(metavar="OTHER.gguf", help="A model to compare with on the same chunks "
                                                               "of text: the mean difference and its standard error.")] = None,
               context: Context = None, sets: Sets = None, as_json: Json = False):
    """Negative log-likelihood per token and perplexity of a text.

    Examples:

        vitro perplexity configs/models/embedded/stories-reglu-3m.f16.gguf eval.txt

        vitro perplexity model.q4_0_tile.gguf eval.txt --against model.q4_0.gguf

        vitro perplexity model.gguf book.txt --context 4096 --json
    """
    with terminal.progress("perplexity") as report:
        answer = files.perplexity(model, text, overrides=sets, context=context or 0, progress=report)
        if against:
            answer["against"] = files.perplexity(against, text, overrides=sets, context=context or 0, progress=report)
            answer["paired"] = paired(answer, answer["against"])
    if as_json:
        terminal.print_json(answer)
        return
    print(f"nll {answer['nll']:.6f} per token, perplexity {answer['perplexity']:.4f}, {answer['tokens']} tokens")
    if against:
        pair = answer["paired"]
        error = "" if pair["standard_error"] is None else f", standard error {pair['standard_error']:.6f}"
        print(f"{pair['difference']:+.6f} against {against.name} (nll {answer['against']['nll']:.6f}){error}, {pair['chunks']} chunks")


def quantize(source: Annotated[Optional[Path], typer.Argument(metavar="IN.gguf")] = None,
             target: Annotated[Optional[Path], typer.Argument(metavar="OUT.gguf")] = None,
             scheme: Annotated[Optional[str], typer.Option(metavar="NAME", help="One of those that --list names.")] = None,
             embedding: Embedding = "", output: Output = "", method: Method = "round", calibration: Calibration = None,
             damp: Damp = None, act_order: ActOrder = False,
             listing: Annotated[bool, typer.Option("--list", help="List the schemes.")] = False, as_json: Json = False):
    """Re-quantise a GGUF file.

    Examples:

        vitro quantize --list

        vitro quantize model.f16.gguf model.q4_0.gguf --scheme q4_0

        vitro quantize model.f16.gguf model.w2g64.gguf --scheme w2g64

        vitro quantize model.f16.gguf model.mixed.gguf --scheme w4g64z --embedding bf16 --output q8_0

        vitro quantize model.f16.gguf model.gptq.gguf --scheme w2g64z --method gptq --calibration text.txt
    """
    schemes = [{"name": name, "description": text} for name, text in native.call("quantize_schemes")]
    if listing:
        terminal.named_list("schemes", schemes, as_json)
        return
    if source is None or target is None or scheme is None:
        raise ConfigError("quantize needs IN.gguf, OUT.gguf and --scheme NAME (or --list)")
    if scheme not in [row["name"] for row in schemes]:
        raise ConfigError(f'--scheme: there is no "{scheme}" (there are {", ".join(row["name"] for row in schemes)})')
    gptq = gptq_of(method, calibration, damp, act_order)
    outputs.file(target, "OUT.gguf")
    source = Path(existing(source))
    with terminal.progress("quantize") as report:
        done = files.quantize(source, target, scheme, embedding=embedding, output=output, gptq=gptq, progress=report)
    sizes = {"source_bytes": source.stat().st_size, "target_bytes": target.stat().st_size}
    if as_json:
        terminal.print_json({"target": str(target), "scheme": scheme, **sizes} | ({"gptq": done} if gptq else {}))
        return
    print(f"{target}: {terminal.size(sizes['target_bytes'])} from {terminal.size(sizes['source_bytes'])}"
          + (f", {done['matrices']} matrices by GPTQ over {done['tokens']} tokens" if gptq else ""))


def merge(base: Annotated[Path, typer.Argument(metavar="BASE.gguf")], adapter: Annotated[Path, typer.Argument(metavar="ADAPTER.gguf")],
          target: Annotated[Path, typer.Argument(metavar="OUT.gguf")],
          scale: Annotated[float, typer.Option(help="How strongly the adapter counts; its own alpha / rank comes on top.")] = 1,
          form: Annotated[str, typer.Option("--format", metavar="NAME", help="Format of what is merged, such as f16 or q8_0. Default: "
                                            "each matrix keeps its own.")] = "", as_json: Json = False):
    """Merge a LoRA adapter into its base.

    Examples:

        vitro merge model.f16.gguf adapter.gguf merged.gguf

        vitro merge model.q4_0.gguf adapter.gguf merged.gguf --scale 0.5 --format q8_0
    """
    outputs.file(target, "OUT.gguf")
    with terminal.progress("merge") as report:
        files.merge(base, adapter, target, scale=scale, format=form, progress=report)
    if as_json:
        terminal.print_json({"target": str(target), "target_bytes": target.stat().st_size})
    else:
        print(f"{target}: {terminal.size(target.stat().st_size)}")


def quality(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")], text: Annotated[Path, typer.Argument(metavar="TEXT")],
            scheme: Annotated[Optional[list[str]], typer.Option(metavar="NAME", help="One of those that `vitro quantize --list` names; may "
                                                                "be repeated. Default: all.")] = None,
            embedding: Embedding = "", output: Output = "", method: Method = "round", calibration: Calibration = None,
            damp: Damp = None, act_order: ActOrder = False, context: Context = None, sets: Sets = None, as_json: Json = False):
    """What quantisation costs a model: each scheme's error of the weights, and likelihood of a text beside the model's own.

    Examples:

        vitro quality configs/models/embedded/stories-reglu-3m.f16.gguf configs/models/embedded/eval.txt

        vitro quality model.gguf eval.txt --scheme w2g64 --scheme w2g128 --json

        vitro quality model.gguf eval.txt --scheme w4g64z --embedding bf16 --output w8g64z

        vitro quality model.gguf eval.txt --scheme w2g64z --method gptq --calibration other.txt
    """
    gptq = gptq_of(method, calibration, damp, act_order)
    with terminal.progress("quality") as report:
        rows = compare(model, text, scheme or (), overrides=sets, embedding=embedding, output=output, gptq=gptq, context=context or 0,
                       progress=report)
    if as_json:
        terminal.print_json({"model": str(model), "rows": rows})
        return
    cells = [(row["scheme"] or model.name, f"{row['bits_per_weight']:.3f}", f"{row['relative_error']:.2%}", f"{row['nll']:.4f}",
              f"{row['difference']:+.4f}", "" if row["standard_error"] is None else f"{row['standard_error']:.4f}") for row in rows]
    terminal.table("", ["scheme", ">bits per weight", ">error of the weights", ">nll", ">difference", ">standard error"], cells,
                   caption="of all matrices but embeddings and routers; schemes that stand for values in f32 have no size of their own")
