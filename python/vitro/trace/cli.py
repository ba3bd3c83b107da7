"""`vitro trace`: Perfetto traces and decision logs on the command line."""
from pathlib import Path
from typing import Annotated

import typer

from ..base import terminal
from ..errors import ConfigError
from . import recordings

trace_app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="markdown", help="""Perfetto traces and decision logs.

Examples:

    vitro trace summary out/demo/sim-dense

    vitro trace where out/demo/sim-dense

    vitro trace diff out/demo/host-dense out/demo/sim-dense
""")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


@trace_app.command()
def summary(trace: Annotated[Path, typer.Argument(metavar="TRACE.json|DIR")], as_json: Json = False):
    """How busy every track was, and what its time went to.

    Examples:

        vitro trace summary out/demo/sim-dense/trace.json

        vitro trace summary out/demo/sim-dense --json
    """
    from .trace import load_trace
    answer = load_trace(trace).summary()
    if not answer["tracks"] and not answer["counters"]:
        raise ConfigError(f"{trace}: has no events (expected trace.first_token and trace.tokens to name tokens that the run makes)")
    if as_json:
        terminal.print_json(answer)
        return
    rows = [(row["group"], row["track"], row["spans"], terminal.number(row["busy_ms"]), f"{row['busy_share']:.1%}",
             ", ".join(f"{top['name']} {top['share']:.0%}" for top in row["top"])) for row in answer["tracks"]]
    since = f", from {terminal.number(answer['begin_ms'])} ms on" if answer["begin_ms"] else ""
    terminal.table(f"{terminal.number(answer['duration_ms'])} ms{since}", ["group", "track", ">spans", ">busy ms", ">busy", "mostly"], rows)
    if answer["counters"]:
        cells = [(row["group"], row["counter"], *(terminal.number(row[key]) for key in ("min", "mean", "max", "last")))
                 for row in answer["counters"]]
        terminal.table("counters", ["group", "counter", ">min", ">mean", ">max", ">last"], cells)


@trace_app.command()
def where(trace: Annotated[Path, typer.Argument(metavar="TRACE.json|DIR")],
          steps: Annotated[str | None, typer.Option(metavar="prompt|decode", help="Look at these steps alone.")] = None,
          top: Annotated[int, typer.Option(min=1, help="Rows to show of each unit.")] = 6, as_json: Json = False):
    """Where the time goes: what each unit computes, what else its core does, and what it waits for.

    Examples:

        vitro trace where out/demo/sim-dense

        vitro trace where out/demo/sim-dense --steps decode --json
    """
    from .trace import load_trace
    from .where import where as shares_of
    loaded = load_trace(trace)
    try:
        shares = shares_of(loaded, steps)
    except ConfigError as error:
        raise ConfigError(f"{trace}: {error}") from None
    if as_json:
        terminal.print_json({"schema": "vitro.trace_where/1", "steps": steps, "rows": [vars(share) for share in shares]})
        return
    for unit in dict.fromkeys(share.unit for share in shares):
        rows = [(share.kind, share.what, terminal.number(share.ms), f"{share.share:.1%}") for share in shares if share.unit == unit]
        terminal.table(unit, ["", "what", ">ms", ">of the time"], rows[:top])


@trace_app.command()
def query(trace: Annotated[Path, typer.Argument(metavar="TRACE.json|DIR")],
          sql: Annotated[str, typer.Argument(metavar="SQL", help='Over spans ("group", track, name, begin_us, dur_us, detail), counters '
                                             '("group", counter, at_us, value) and flows (flow, submitted_us, done_us, request, track, '
                                             'kernel, kernel_begin_us, kernel_detail; of a trace with trace.flows).')],
          out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the rows to FILE.parquet or FILE.csv as they come.")] = None,
          as_json: Json = False):
    """SQL over the spans, counters and flows of a trace (DuckDB).

    Examples:

        vitro trace query out/demo/sim-dense "SELECT name, sum(dur_us) AS us FROM spans GROUP BY name ORDER BY us DESC LIMIT 10"

        vitro trace query out/demo/sim-dense "SELECT max(value) FROM counters WHERE counter = 'dram'" --json

        vitro trace query out/demo/sim-dense "SELECT * FROM spans" --out spans.parquet
    """
    import json

    from .query import query as ask
    from .query import query_to
    if out is not None:
        count = query_to(trace, sql, out)
        if as_json:
            terminal.print_json({"file": str(out), "rows": count})
        else:
            print(f"{out}: {count} row{'' if count == 1 else 's'}")
        return
    frame = ask(trace, sql)
    if as_json:
        terminal.print_json({"columns": list(frame.columns), "rows": json.loads(frame.to_json(orient="values", double_precision=15))})
        return
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "iuf"]
    cells = [["–" if value is None or value != value else terminal.number(value) if name in numbers else str(value)
              for name, value in zip(frame.columns, row)] for row in frame.itertuples(index=False, name=None)]
    title = "1 row" if len(frame) == 1 else f"{len(frame)} rows"
    terminal.table(title, [f">{name}" if name in numbers else name for name in frame.columns], cells)


@trace_app.command()
def diff(a: Annotated[Path, typer.Argument(metavar="A")], b: Annotated[Path, typer.Argument(metavar="B")],
         context: Annotated[int, typer.Option(min=0, help="Equal decisions to show before and after.")] = 3,
         limit: Annotated[int, typer.Option(min=1, help="Differences to show.")] = 5, as_json: Json = False):
    """Compare two decision logs (decisions.jsonl, or the folders of two runs). Exit code 1 if they differ.

    Examples:

        vitro trace diff out/demo/host-dense out/demo/sim-dense

        vitro trace diff a/decisions.jsonl b/decisions.jsonl --context 5
    """
    from .trace import diff_decisions
    answer = diff_decisions(a, b, context=context, limit=limit)
    if as_json:
        terminal.print_json(answer)
    elif answer["equal"]:
        print(f"equal: {answer['count'][0]} decisions")
    else:
        _print_differences(answer, a, b)
    if not answer["equal"]:
        raise typer.Exit(1)


@trace_app.command()
def replay(recording: Annotated[Path, typer.Argument(metavar="RECORDING")],
           machine: Annotated[str, typer.Option(help="sim or host.")] = "sim",
           device: Annotated[Path | None, typer.Option(help="Device file, for sim.")] = None,
           file: Annotated[Path | None, typer.Option(help="File to read from; needed on host.")] = None,
           depth: Annotated[int, typer.Option(min=1, max=1024, help="Reads in flight.")] = 1,
           paced: Annotated[bool, typer.Option("--paced", help="Each read at its recorded time, instead of --depth in flight.")] = False,
           as_json: Json = False):
    """Issue the reads of a recording (engine.record) again: what would this I/O cost on that flash?

    Examples:

        vitro run experiments/quickstart.yaml --set engine.policy=mmap --set "memory.budget=6 MiB" --set engine.record=out/run.rec

        vitro trace replay out/run.rec --device configs/devices/oneplus12.yaml --depth 4
    """
    answer = recordings.replay_io(recording, machine=machine, device=device, file=file, depth=depth, paced=paced)
    if as_json:
        terminal.print_json(answer)
        return
    rows = [(key, terminal.number(value) if isinstance(value, (int, float)) else value)
            for key, value in (answer | {f"latency_us.{k}": v for k, v in answer["latency_us"].items()}).items() if key != "latency_us"]
    terminal.table(f"{recording} on {machine}", ["", ">value"], rows)


@trace_app.command()
def convert(recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="Of engine.record, `vitro profile` or vitro.Recording.")],
            out: Annotated[Path, typer.Argument(metavar="OUT", help="Parquet where its name ends in .parquet, else vitro's own format.")]):
    """A recording in another format: Parquet is smaller, and read by pandas, polars and DuckDB. Its reads are left out.

    Examples:

        vitro trace convert run.vtrc run.parquet

        vitro trace convert run.parquet run.vtrc
    """
    from .recording import Recording
    found = Recording.load(recording)
    found.save(out)
    print(f"{out}: {found!r}, {terminal.size(out.stat().st_size)} ({terminal.size(recording.stat().st_size)} before)")


@trace_app.command()
def experts(files: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Of engine.record or `vitro profile`.")],
            as_json: Json = False):
    """Whether a calibration transfers: Overlap@K of a mixture's hot experts, of each recording's halves and of each two recordings.

    Where recordings are of runs that generated tokens, also of a prompt's tokens and of generated ones alone, and of these by those.

    Examples:

        vitro trace experts stories.vtrc licence.vtrc

        vitro trace experts stories.vtrc licence.vtrc --json
    """
    from .hot_experts import overlaps
    from .recording import Recording
    names = {str(file): file for file in files}
    frame = overlaps({name: Recording.load(file) for name, file in names.items()})
    if as_json:
        terminal.print_json({"schema": "vitro.trace_experts/1", "rows": frame.to_dict("records")})
        return
    rows = frame.to_dict("records")
    asked = [row["kind"] if row["asked_on"] == row["calibrated_on"] else row["asked_on"] for row in rows]
    cells = [(row["calibrated_on"], on, row["tokens"], row["k"], *(f"{row[key]:.1%}" for key in ("mean", "median", "least", "chance")))
             for row, on in zip(rows, asked)]
    columns = ["calibrated on", "asked on", "tokens", ">K", ">mean", ">median", ">least", ">by chance"]
    terminal.table("Overlap@K over layers", columns, cells)


def _print_differences(answer, a, b):
    print(f"--- {a}: {answer['count'][0]} decisions\n+++ {b}: {answer['count'][1]} decisions")
    for hunk in answer["hunks"]:
        print(f"@@ decision {hunk['a_begin']} of a, {hunk['b_begin']} of b @@")
        for mark, lines in ((" ", hunk["before"]), ("-", hunk["a"]), ("+", hunk["b"]), (" ", hunk["after"])):
            for line in lines:
                print(mark, line)
    if answer["more"]:
        print("... and more (--limit shows them)")
    for kind, (in_a, in_b) in answer["kinds"].items():
        if in_a != in_b:
            print(f"{kind}: {in_a} in a, {in_b} in b")
