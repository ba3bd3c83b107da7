"""`vitro make-model`, `profile`, `workload` and `predictors`: known sparsity, that of models and draws, and guesses at it; `tokenize` and
`graph`: what a model file says."""
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Optional

import typer

from ..base import inputs, outputs, process, terminal
from ..base.options import NoCode
from ..base.whole_files import in_place
from ..errors import ConfigError, VitroError
from ..running import experiments
from ..trace import recordings
from . import files
from .make import PRESETS, spec_with
from .make import make_model as write_model
from .predictors import Options, make_predictors

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def make_model(target: Annotated[Path, typer.Argument(metavar="OUT.gguf")],
               preset: Annotated[str, typer.Option(metavar="|".join(PRESETS), help="Shapes.")] = "1.3b",
               active: Annotated[Optional[float], typer.Option(min=0.001, max=0.9, help="Share of neurons that fire, in the mean.")] = None,
               skew: Annotated[Optional[float], typer.Option(min=0, max=4, help="Exponent of the firing curve over ranks.")] = None,
               correlation: Annotated[Optional[float], typer.Option(min=0, max=0.95, help="Share of a gate's variance that changes "
                                                                    "slowly from token to token.")] = None,
               value_head: Annotated[bool, typer.Option(help="With a head that scores texts, for workload.scaling.scorer.")] = False,
               seed: Annotated[Optional[int], typer.Option(min=0)] = None,
               check: Annotated[bool, typer.Option(help="Run it for some tokens and report the sparsity that it has.")] = True,
               as_json: Json = False):
    """Write a random ReGLU model with planted sparsity, predictors included: for out-of-core runs without a download.

    Examples:

        vitro make-model big.gguf

        vitro make-model small.gguf --preset tiny --active 0.2 --json
    """
    outputs.file(target, "OUT.gguf")
    spec = spec_with(preset, active=active, skew=skew, correlation=correlation, value_head=value_head or None, seed=seed)
    with terminal.progress(target.name) as report:
        write_model(spec, target, report)
    answer = {"path": str(target), "bytes": target.stat().st_size, "parameters": spec.parameters,
              "ffn_share": spec.ffn_parameters / spec.parameters,
              "planted": {"active": spec.active, "skew": spec.skew, "correlation": spec.correlation}}
    if check:
        answer["reached"] = _reached(target)
    if as_json:
        terminal.print_json(answer)
        return
    print(f"{target}: {spec.parameters / 1e6:.0f} M parameters, {answer['ffn_share']:.0%} in FFNs, {terminal.size(answer['bytes'])}")
    if check:
        _print_firing(answer["reached"])


def profile(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")], text: Annotated[Path, typer.Argument(metavar="TEXT")],
            out: Annotated[Path, typer.Option("-o", "--out", metavar="RECORDING", help="Which neurons fired for which token.")],
            as_json: Json = False):
    """Record which neurons of a model fire over a text. The recording orders a pack and replays in experiments.

    Examples:

        vitro profile model.gguf text.txt -o model.vtrc

        vitro pack model.gguf model.vpack --order model.vtrc
    """
    outputs.file(out, "--out")
    with terminal.progress("profile") as report:
        files.perplexity(model, text, overrides={"engine.record": str(out.absolute())}, progress=report)
    layers, tokens = recordings.firing_statistics(out, model), recordings.token_statistics(out)
    if as_json:
        terminal.print_json({"path": str(out), "layers": layers, "tokens": tokens})
        return
    _print_firing(layers)
    print(f"{tokens['tokens']} tokens: the number of firing neurons varies by {tokens['spread']:.1%} (standard deviation), by "
          f"{tokens['layer_spread']:.1%} in one layer (correlation with the next layer {tokens['neighbours_alike']:.2f}, of any two "
          f"{tokens['layers_alike']:.2f}, by {tokens['shared']:.1%} in all layers alike; with the token before {tokens['lasting']:.2f}); "
          f"{tokens['fresh']:.1%} of them did not fire for the token before, a number that varies by "
          f"{tokens['fresh_spread']:.1%}")


def workload(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
             overrides: Annotated[Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
             tokens: Annotated[int, typer.Option(min=2, max=65536, help="Of one sequence.")] = 256,
             layer: Annotated[int, typer.Option(min=0)] = 0, expert: Annotated[int, typer.Option(min=0)] = 0,
             no_code: NoCode = False, as_json: Json = False):
    """Say what the drawn workload of an experiment is like: how often neurons fire, together, again and in batches.

    It is about `model.profile` or `engine.profile`; what fires in a model with weights, `vitro profile` records.

    Examples:

        vitro workload experiments/benchmarks/offload_7b.yaml

        vitro workload experiments/benchmarks/offload_7b.yaml --set engine.profile.persistence=50% --json
    """
    found = recordings.workload_statistics(experiment, overrides=overrides, tokens=tokens, layer=layer, expert=expert)
    if as_json:
        terminal.print_json(found)
        return
    shares = [("neurons that fire for a token", "fraction"), ("of them, for the token before as well", "repeated"),
              ("neurons that the predictor names", "named"), ("of those that fire, named", "recall"),
              ("of those named, firing (co-activation of Gate, Up and Down)", "coactivation"),
              ("of the colder half, firing when another one does", "cold_coactivation")]
    terminal.table("", ["of one FFN", ">share"], [(what, f"{found[key]:.2%}") for what, key in shares])
    terminal.table("", [">hottest", ">probability of the last", ">share of all firings"],
                   [(f"{row['neurons']:.1%}", f"{row['probability']:.2%}", f"{row['firings']:.1%}") for row in found["curve"]])
    terminal.table("", [">sequences", ">neurons that fire for one", ">with a chance of a half or more"],
                   [(row["sequences"], f"{row['firing']:.2%}", f"{row['hot']:.2%}") for row in found["batches"]])
    if "experts" in found:
        terminal.table("", ["of a layer's experts", ">share of tokens"],
                       [("one at least is the token before's as well", f"{found['experts']['shared']:.2%}"),
                        ("the first choice is the token before's", f"{found['experts']['same_first']:.2%}")])
    terminal.table("", [">neurons cached (LRU)", ">hits"], [(f"{row['neurons']:.0%}", f"{row['hits']:.2%}") for row in found["caches"]])
    for note in found["notes"]:
        print(f"note: {note}")


def predictors(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")], text: Annotated[Path, typer.Argument(metavar="TEXT")],
               out: Annotated[Path, typer.Option("-o", "--out", metavar="OUT.gguf", help="The model and what was added.")],
               rank: Annotated[int, typer.Option(min=0, max=1 << 14, help="Of the predictors; 0: thresholds alone.")] = Options.rank,
               recall: Annotated[float, typer.Option(min=0.5, max=1, help="Share of the firing neurons that a predictor is to name.")]
               = Options.recall,
               sparsity: Annotated[Optional[float], typer.Option(min=0, max=0.99, help="For SiLU and GELU: share of activations that "
                                                                 "are left out as too small, 0.5 unless given.")] = None,
               rows: Annotated[int, typer.Option(min=64, max=1 << 20, help="Tokens of the text to learn from.")] = Options.rows,
               as_json: Json = False):
    """Build predictors of firing neurons from a model's Gate weights, with thresholds calibrated on a text.

    Examples:

        vitro predictors model.gguf text.txt -o model.pred.gguf

        vitro predictors mistral.gguf text.txt -o mistral.cats.gguf --rank 256 --sparsity 0.5

        vitro perplexity model.pred.gguf other.txt --set engine.policy=neuron_cluster --set engine.prefill_chunk=1
    """
    outputs.file(out, "--out")
    with terminal.progress("predictors") as report:
        layers = make_predictors(model, text, out, Options(rank, recall, sparsity, rows), report)
    if as_json:
        terminal.print_json({"path": str(out), "layers": layers})
        return
    terminal.table(f"{out}: measured on the last quarter of the text", ["layer", ">active", ">above", ">recall", ">precision"],
                   [(row["layer"], f"{row['active']:.1%}", terminal.number(row["threshold"]),
                     *("" if row[key] is None else f"{row[key]:.1%}" for key in ("recall", "precision"))) for row in layers])


def _reached(model):
    """Firing statistics of the model over 32 tokens drawn at temperature 1, so that it does not go in circles."""
    with TemporaryDirectory() as folder:
        recording = Path(folder) / "recording.vtrc"
        experiments.run({"experiment": "make_model", "machine": "host", "model": {"gguf": str(model.absolute())},
                 "engine": {"threads": 1, "record": str(recording)},
                 "workload": {"prompt_tokens": 16, "output_tokens": 32, "stop_at_eos": False, "sampling": {"temperature": 1}}})
        return recordings.firing_statistics(recording, model)


def _print_firing(layers):
    terminal.table("", ["layer", "expert", ">tokens", ">active", ">of them in the hottest fifth", ">as for the token before"],
                   [(row["layer"], "" if row["expert"] < 0 else row["expert"], row["tokens"], f"{row['active']:.1%}",
                     f"{row['hot_share']:.1%}", f"{row['repeated']:.1%}") for row in layers])


def tokenize(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")], as_json: Json = False):
    """Token ids of the text on stdin, without BOS.

    Examples:

        echo -n "Once upon a time" | vitro tokenize model.gguf

        vitro tokenize model.gguf --json < story.txt
    """
    ids = files.tokenize(model, sys.stdin.buffer.read())
    if as_json:
        terminal.print_json({"ids": ids})
    else:
        print(*ids)


def graph(model: Annotated[Path, typer.Argument(metavar="MODEL.gguf")],
          dot_only: Annotated[bool, typer.Option("--dot", help="Print Graphviz text, as without --out.")] = False,
          out: Annotated[Optional[Path], typer.Option(metavar="FILE", help="A .dot, .svg, .png or .pdf file.")] = None,
          fuse: Annotated[str, typer.Option(metavar="none|geometry|all", help="The graph as the model is built (none), with moves fused "
                                            "(geometry), or with norms fused too (all).")] = "all"):
    """The model's operator graph, as Graphviz text or as a picture.

    Examples:

        vitro graph model.gguf --dot > graph.dot

        vitro graph model.gguf --fuse none --out graph.svg
    """
    dot = process.call("graph_dot", inputs.existing(model), fuse)
    if out is None or dot_only:
        print(dot)
        return
    kind = out.suffix.lstrip(".")
    if kind not in ("dot", "svg", "png", "pdf"):
        raise ConfigError(f"{out}: the name has to end in .dot, .svg, .png or .pdf")
    outputs.file(out, "--out")
    if kind == "dot":
        with in_place(out) as unfinished:
            unfinished.write_text(dot)
        return
    try:
        with in_place(out) as unfinished:
            subprocess.run(["dot", f"-T{kind}", "-o", str(unfinished)], input=dot.encode(), check=True)
    except FileNotFoundError:
        raise VitroError("Graphviz is missing: install the package graphviz, or write a .dot file") from None
    except subprocess.CalledProcessError as error:
        raise VitroError(f"dot could not draw {out} (exit code {error.returncode})") from None
