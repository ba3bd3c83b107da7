"""`vitro reproduce`: published results beside simulated ones."""
from typing import Annotated, Optional

import typer

from ..base import terminal
from ..base.options import NoCode, On
from ..errors import ConfigError


def reproduce(paper: Annotated[str, typer.Option(metavar="pi2|mnn|tts|tman|npumoe", help="A folder of "
                                                  "experiments/papers/.")] = "pi2",
              reading: Annotated[str, typer.Option(metavar="published|fair", help="Compared systems as their papers had them, or "
                                                   "with the same kernels, cores and reads in flight.")] = "published",
              only: Annotated[Optional[list[str]], typer.Option(metavar="ID", help="One result, all rows of one, or one check; may be "
                                                   "repeated.")] = None,
              diagnose: Annotated[bool, typer.Option("--diagnose", help="Also run the diagnosis of each row that is off.")] = False,
              jobs: Annotated[Optional[int], typer.Option(min=1, help="Runs at a time. Default: the cores that may be used.")] = None,
              on: On = "local",
              keep: Annotated[Optional[str], typer.Option(metavar="DIR", help="Keep results there, and take those that are there.")] = None,
              table: Annotated[Optional[str], typer.Option(metavar="FILE", help="Renew the tables of this page.")] = None,
              no_code: NoCode = False,
              as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False):
    """A paper's results beside those of the simulated phone. Rows that are off do not make it fail.

    Examples:

        vitro reproduce --paper pi2

        vitro reproduce --paper pi2 --only pi2_t6_bamboo_tps --diagnose

        vitro reproduce --paper pi2 --diagnose --keep out/pi2 --table docs/results/reproduce-pi2.md

        vitro reproduce --paper pi2 --reading fair

        vitro reproduce --paper pi2 --json | jq .summary
    """
    from . import paper as reproducing
    from . import show as showing
    if table is not None:
        if only:
            raise ConfigError("--table: can not be combined with --only (expected one of the two)")
        showing.check_page(paper, table, reading)
    with terminal.progress("reproduce") as report:
        answer = reproducing.reproduce(paper, reading=reading, only=only or (), jobs=jobs, diagnose=diagnose, keep=keep, on=on,
                                       progress=report)
    if table is not None:
        showing.write_tables(answer, table)
    if as_json:
        terminal.print_json(answer)
    else:
        showing.show(answer)
    failed = [run for run in answer["runs"] if run["failed"]]
    if failed:
        terminal.say(f"vitro: {len(failed)} of {len(answer['runs'])} runs failed; the first one ({failed[0]['run']}): {failed[0]['error']}")
        raise typer.Exit(1)
