"""`vitro bench`, `vitro list` and `vitro demo`."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import Json, Plugins


def bench(kind: Annotated[Optional[str], typer.Argument(metavar="[kernels|sim|engine]")] = None,
          smoke: Annotated[bool, typer.Option("--smoke", help="A few iterations, to see that it works.")] = False,
          only: Annotated[str, typer.Option(metavar="BEGINNING", help="Of `kernels`, those whose name begins with this. The "
                                                      "name of a row will do, too.")] = "",
          record: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Write the values of each round, with machine and "
                                                         "commit.")] = None,
          against: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Compare with such a file, by turns with its build where "
                                                          "that is still there; all that it has unless a kind is given. Exit code 1 if "
                                                          "something is slower.")] = None,
          rounds: Annotated[Optional[int], typer.Option(min=1, max=1000, help="Rounds of --record and --against; 5 unless said.")] = None,
          as_json: Json = False):
    """Performance of this build on this machine, each row beside its limit; – where nothing bounds it.

    `kernels`: the memory bandwidth measured beside each row. `engine`: the same operations without hand-over between cores. `sim`: what is
    asked for in simulated seconds per second (20; 5 with half of a model in flash), the calls and posts that a token's phases allow, the
    memory of a run half as long, and a bare event queue (docs/sim-speed.md has each row).

    Examples:

        vitro bench

        vitro bench kernels --only "matvec q4_0"

        vitro bench kernels --json

        vitro bench sim --record before.json

        vitro bench sim --against before.json
    """
    from . import bench as benchmarks
    if only and (kind != "kernels" or record or against):
        raise typer.BadParameter("can only be used with `kernels`, without --record and --against", param_hint="--only")
    kinds = [kind] if kind else list(benchmarks.KINDS)

    def measured(name):
        with terminal.progress(f"bench {name}") as report:
            return benchmarks.rows(name, smoke=smoke, only=only, progress=report)
    if record or against:
        from . import bench_rounds
        if bench_rounds.main([kind] if kind else [], smoke, rounds or 5, record, against, measured, as_json):
            raise typer.Exit(1)
        return
    if rounds is not None:
        raise typer.BadParameter("can only be used with --record or --against", param_hint="--rounds")
    rows = [row for name in kinds for row in measured(name)]
    if as_json:
        terminal.print_json({"schema": "vitro.bench/1", "rows": rows})
        return
    cells = [(row["name"], terminal.number(row["value"]), row["unit"], terminal.number(row.get("limit")),
              "–" if row.get("fraction_of_limit") is None else f"{row['fraction_of_limit']:.0%}") for row in rows]
    terminal.table("bench", ["name", ">value", "unit", ">limit", ">of limit"], cells)


def list_(kind: Annotated[str, typer.Argument(metavar="devices|models|policies|weights|ffns|placements|evictions|kv_keeps|kernels|"
                                                      "plugins")],
          plugins: Plugins = None, as_json: Json = False):
    """What there is, with one line each.

    Examples:

        vitro list devices

        vitro list policies --json

        vitro list plugins --plugin ./fixed_ufs.so
    """
    from . import catalog
    rows = catalog.rows(kind)
    terminal.named_list(kind, rows, as_json)
    if kind == "devices" and not as_json:
        print()
        terminal.table("what they have", *catalog.hardware_table(rows))
        print()
        terminal.table("where their numbers come from", *catalog.provenance_table(rows))


def demo(out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report and the traces.")] = Path("out/demo"),
         as_json: Json = False):
    """The embedded model on the real machine and on the simulated phone, side by side, with a report.

    Examples:

        vitro demo

        vitro demo --out out/first-look
    """
    from .demo import main as run_demo
    if not run_demo(out, as_json=as_json):
        raise typer.Exit(1)
