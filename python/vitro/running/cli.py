"""`vitro run`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.metric_units import OLD_NAMES
from ..base.options import Json, NoCode, Plugins, Sets
from ..base.origins import with_origins
from ..base.trees import flatten
from ..errors import ConfigError
from ..policy import bring
from ..policy.files import Policies, load
from . import experiments
from .result import named


def run(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
        machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
        sets: Sets = None,
        out: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Folder for result.json, trace.json, decisions.jsonl and "
                                                    "report.html.")] = None,
        resolve: Annotated[bool, typer.Option("--resolve", help="Print the experiment as resolved, for vitro-device, and run "
                                              "nothing.")] = False,
        band: Annotated[bool, typer.Option("--band", help="Sim on a calibrated device: two more runs give each metric an error "
                                           "band.")] = False,
        policies: Policies = None,
        twice: Annotated[bool, typer.Option("--twice", help="Run again, and fail where a policy decides otherwise.")] = False,
        plugins: Plugins = None, no_code: NoCode = False, as_json: Json = False):
    """Run one experiment.

    Examples:

        vitro run experiments/quickstart.yaml

        vitro run experiments/quickstart.yaml --machine host --set engine.policy=mmap --set "memory.budget=6 MiB" --out out/mmap

        vitro run experiments/offload.yaml --policy mine.py:MyRule --set engine.weights.eviction=MyRule

        vitro run experiments/quickstart.yaml --json | jq .metrics.decode_tokens_per_s
    """
    if machine not in (None, "sim", "host"):
        raise ConfigError(f'--machine: "{machine}" is neither sim nor host')
    brought = load(policies)
    composed = experiments.compose(experiment, overrides=[*(sets or []), *bring.overrides(brought)], machine=machine)
    if resolve:
        terminal.print_json(composed.resolved)
        return
    with terminal.progress(experiment.stem) as report:
        result = experiments.run_composed(composed, policies=brought, twice=twice, out=out, progress=report, band=band)
    with with_origins(lambda: composed.origins):
        judged = result.expectations
        if as_json:
            terminal.print_json(result.data)
        else:
            _print_run(result, judged)
    if out:
        from ..report.run import write_run
        page = write_run(result, out)
        if not as_json:
            print(f"report: {page}")
    if any(row["status"] == "off" for row in judged):
        raise typer.Exit(1)


def _print_run(result, judged):
    metrics = {name: value for name, value in flatten(result.metrics).items() if not isinstance(value, list)}
    wanted = (result.get("experiment_resolved") or {}).get("metrics")
    rows = [(name, terminal.number(metrics[name])) for name in named(metrics, wanted) if wanted or name not in OLD_NAMES]
    terminal.table(f"{result['experiment']} on {result.machine}", ["metric", ">value"], rows)
    if (speed := (result.get("prediction_band") or {}).get("decode_tokens_per_s")) is not None:
        print(f"error band of decode: {terminal.number(speed[0])} to {terminal.number(speed[1])} tokens/s")
    if scaled := result.get("scaling"):
        terminal.table(f"{scaled['method']}: {result.metric('scaling.generated_tokens')} tokens in "
                       f"{terminal.number(result.metric('scaling.latency_ms'))} ms, * is chosen", *_samples(scaled))
    if len(result.get("requests") or []) > 1:
        terminal.table("Requests: times above are of the last one", *_requests(result["requests"]))
    elif result.text:
        print(result.text.strip())
    for note in result.get("notes", []):
        print(f"note: {note}")
    for row in judged:
        print(f"expect {row['id']}: {row['metric']} {terminal.number(row['measured'])} {row['relation']} "
              f"{terminal.number(row['expected'])}: {row['status']}")


def _requests(requests):
    """What each has computed and said: column names and rows of texts. Without numbers there is no text."""
    columns = ["", ">rows of the prompt", ">kept before", ">first token, ms", ">tokens/s", "text"]
    numbers = ("prefill_rows", "kept_rows", "ttft_ms", "decode_tokens_per_s")
    return columns, [[str(index), *(terminal.number(request.get(name)) for name in numbers), _short(request.get("text") or "–")]
                     for index, request in enumerate(requests)]


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= 70 else text[:69] + "…"


def _samples(scaling):
    """The samples of a result as a table: column names and rows of texts."""
    columns = ["", ">score", ">tokens", "answer", "text"] if scaling.get("votes") else ["", ">score", ">tokens", "text"]
    table = []
    for index, sample in enumerate(scaling["samples"]):
        row = ["*" if index == scaling["chosen"] else str(index), terminal.number(sample["score"]), str(len(sample["tokens"]))]
        row += [sample["answer"] or "–"] if scaling.get("votes") else []
        table.append(row + [_short(sample["text"])])
    return columns, table
