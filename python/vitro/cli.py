"""The `vitro` command. Exit codes: 0 done, 1 the run failed or an expectation did not hold, 2 the input was wrong."""
import errno
import os
from pathlib import Path
from typing import Annotated

import typer

from .base import terminal
from .base.version import __version__
from .calibrate.cli import command as calibrate
from .commands.cli import bench, demo, list_
from .device.cli import characterize, tiles
from .errors import VitroError
from .model.cli import graph, make_model, predictors, profile, tokenize, workload
from .model.convert_cli import convert
from .model.pack_cli import pack
from .model.quality_cli import merge, perplexity, quality, quantize
from .plan.cli import plan
from .reproducing.cli import reproduce
from .running.cli import run
from .study.cli import sweep
from .study.search_cli import search
from .study.tasks_cli import tasks
from .trace.cli import trace_app
from .validate.bundle import command as bundle
from .validate.cli import command as validate

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, pretty_exceptions_enable=False,
                  context_settings={"help_option_names": ["-h", "--help"]})
app.command()(run)
app.command()(sweep)
app.command()(search)
app.command()(tasks)
app.add_typer(trace_app, name="trace")
app.command()(tokenize)
app.command()(graph)
app.command()(perplexity)
app.command()(quantize)
app.command()(merge)
app.command()(convert)
app.command()(quality)
app.command()(pack)
app.command()(plan)
app.command()(profile)
app.command()(make_model)
app.command()(workload)
app.command()(predictors)
app.command("calibrate")(calibrate)
app.command("validate")(validate)
app.command("bundle")(bundle)
app.command()(reproduce)
app.command()(bench)
app.command()(characterize)
app.command()(tiles)
app.command("list")(list_)
app.command()(demo)


def _cmake_dir(wanted: bool):
    if wanted:
        inside = Path(__file__).parent / "cmake"  # of an installed package; a checkout has it at its root
        print(inside if inside.is_dir() else Path(__file__).parents[2] / "cmake")
        raise typer.Exit()


def _version(wanted: bool):
    if wanted:
        print(f"vitro {__version__}")
        raise typer.Exit()


@app.callback()
def root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
         cmake_dir: Annotated[bool, typer.Option("--cmake-dir", callback=_cmake_dir, is_eager=True,
                                                 help="Print the folder of vitro-config.cmake, for building plug-ins.")] = False):
    """One LLM inference engine on two machines: the real one (host), and a SystemC model of a phone (sim).

    Examples:

        vitro demo

        vitro run experiments/quickstart.yaml --machine sim --set engine.policy=mmap --set "memory.budget=6 MiB"

        vitro list devices
    """


# An OSError of these says that a path of the user's can not be what was asked of it; of any other (a full disk), that the run failed.
_INPUT_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.EEXIST}
_INTERRUPTED = 130  # what Typer makes of Ctrl-C


def main(args=None):
    """-> the exit code. Every failure is one message on stderr."""
    try:
        code = app(args, prog_name="vitro", standalone_mode=False) or 0
        if code == _INTERRUPTED:
            terminal.say("vitro: interrupted")
        return code
    except VitroError as error:
        terminal.say(f"vitro: {error}")
        return error.exit_code
    except typer.TyperException as error:
        if said := error.format_message():  # nothing where a command alone has printed its help
            terminal.say(f"vitro: {said} (see --help)")
        return getattr(error, "exit_code", 2)
    except BrokenPipeError:  # `vitro ... | head` is no failure of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        terminal.say(f"vitro: {error.filename or 'input/output'}: {error.strerror or error}")
        return 2 if error.errno in _INPUT_ERRORS else 1
