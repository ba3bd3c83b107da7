"""The `vitro` command. Exit codes: 0 done, 1 the run failed or an expectation did not hold, 2 the input was wrong."""
import errno
import importlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from .base import process, terminal
from .base.version import __version__
from .errors import VitroError

# Each command, and where its function is (or, of `trace`, its group of commands).
COMMANDS = {
    "run": (".running.cli", "run"),
    "sweep": (".study.cli", "sweep"),
    "search": (".study.search_cli", "search"),
    "sensitivity": (".study.sensitivity_cli", "sensitivity"),
    "tasks": (".study.tasks_cli", "tasks"),
    "report": (".study.site_cli", "report"),
    "trace": (".trace.cli", "trace_app"),
    "tokenize": (".model.cli", "tokenize"),
    "graph": (".model.cli", "graph"),
    "perplexity": (".model.quality_cli", "perplexity"),
    "quantize": (".model.quality_cli", "quantize"),
    "merge": (".model.quality_cli", "merge"),
    "convert": (".model.convert_cli", "convert"),
    "quality": (".model.quality_cli", "quality"),
    "pack": (".model.pack_cli", "pack"),
    "plan": (".plan.cli", "plan"),
    "profile": (".model.cli", "profile"),
    "make-model": (".model.cli", "make_model"),
    "workload": (".model.cli", "workload"),
    "predictors": (".model.cli", "predictors"),
    "calibrate": (".calibrate.cli", "command"),
    "validate": (".validate.cli", "command"),
    "bundle": (".validate.bundle", "command"),
    "reproduce": (".reproducing.cli", "reproduce"),
    "bench": (".commands.cli", "bench"),
    "characterize": (".device.cli", "characterize"),
    "tiles": (".device.cli", "tiles"),
    "torture": (".torture.cli", "torture"),
    "list": (".commands.cli", "list_"),
    "schema": (".schema.cli", "command"),
    "demo": (".commands.cli", "demo"),
}
_LOOK: dict[str, Any] = {"add_completion": False, "rich_markup_mode": "markdown", "pretty_exceptions_enable": False,
                         "context_settings": {"help_option_names": ["-h", "--help"]}}


class Commands(typer.core.TyperGroup):
    """Imports a command when it is called or its help is asked for: what only the others need, such as matplotlib, costs nothing."""

    def list_commands(self, ctx):
        return list(COMMANDS)

    def get_command(self, ctx, name):
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name]
        found = getattr(importlib.import_module(module, __package__), attribute)
        if isinstance(found, typer.Typer):
            command = typer.main.get_command(found)
        else:
            alone = typer.Typer(**_LOOK)
            alone.command(name)(found)
            command = typer.main.get_command(alone)
        command.name = name
        return command


app = typer.Typer(cls=Commands, **_LOOK)


def _cmake_dir(wanted: bool):
    if wanted:
        inside = Path(__file__).parent / "cmake"  # of an installed package; a checkout has it at its root
        print(inside if inside.is_dir() else Path(__file__).parents[2] / "cmake")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def root(ctx: typer.Context,
         version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
         verbose: Annotated[bool, typer.Option("--verbose", help="With --version: those of the engine, and of all packages, too.")] = False,
         cmake_dir: Annotated[bool, typer.Option("--cmake-dir", callback=_cmake_dir, is_eager=True,
                                                 help="Print the folder of vitro-config.cmake, for building plug-ins.")] = False):
    """One LLM inference engine on two machines: the real one (host), and a simulated phone (sim).

    Examples:

        vitro demo

        vitro run experiments/quickstart.yaml --machine sim --set engine.policy=mmap --set "memory.budget=6 MiB"

        vitro list devices
    """
    if verbose and not version:
        raise typer.BadParameter("can only be used with --version", param_hint="--verbose")
    if version:
        from .commands import versions
        print(versions.described() if verbose else f"vitro {__version__}")
        raise typer.Exit()
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(2)


# An OSError of these says that a path of the user's can not be what was asked of it; of any other (a full disk), that the run failed.
_INPUT_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.EEXIST}
_INTERRUPTED = 130  # what Typer makes of Ctrl-C


def main(args=None):
    """-> the exit code. Every failure is one message on stderr."""
    terminal.speak_anyhow()
    if args is None:
        process.remember_interrupts()
    try:
        code = app(args, prog_name="vitro", standalone_mode=False) or 0
        if code == _INTERRUPTED:
            terminal.say("vitro: interrupted")
        return code
    except VitroError as error:
        terminal.say(f"vitro: {terminal.printable(str(error))}")
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
