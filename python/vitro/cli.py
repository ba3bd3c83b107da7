"""The `vitro` command. Exit codes: 0 done, 1 the run failed or an expectation did not hold, 2 the input was wrong."""
import errno
import os
from pathlib import Path
from typing import Annotated, Optional

import typer

from . import __version__, terminal
from .bundle import command as bundle
from .calibrate import command as calibrate
from .errors import ConfigError, VitroError
from .model_cli import graph, make_model, predictors, profile, tokenize, workload
from .options import Json, Plugins
from .pack_cli import pack
from .plan_cli import plan
from .quality_cli import perplexity, quality, quantize
from .reproduce_cli import reproduce
from .run_cli import run, sweep
from .trace_cli import trace_app
from .validate_cli import command as validate

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, pretty_exceptions_enable=False,
                  context_settings={"help_option_names": ["-h", "--help"]})
app.command()(run)
app.command()(sweep)
app.add_typer(trace_app, name="trace")
app.command()(tokenize)
app.command()(graph)
app.command()(perplexity)
app.command()(quantize)
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


@app.command()
def bench(kind: Annotated[Optional[str], typer.Argument(metavar="[kernels|sim|engine]")] = None,
          smoke: Annotated[bool, typer.Option("--smoke", help="A few iterations, to see that it works.")] = False,
          as_json: Json = False):
    """Performance of this build on this machine, each row beside its limit; – where nothing bounds it.

    `kernels`: the memory bandwidth measured beside each row. `engine`: the same operations without hand-over between cores. `sim`: what is
    asked for in simulated seconds per second (20; 5 with half of a model in flash), the calls and posts that a token's phases allow, the
    memory of a run half as long, and a bare event queue (docs/sim-speed.md has each row).

    Examples:

        vitro bench

        vitro bench kernels --json
    """
    from . import bench as benchmarks
    rows = []
    for name in [kind] if kind else benchmarks.KINDS:
        with terminal.progress(f"bench {name}") as report:
            rows += benchmarks.rows(name, smoke=smoke, progress=report)
    if as_json:
        terminal.print_json({"schema": "vitro.bench/1", "rows": rows})
        return
    cells = [(row["name"], terminal.number(row["value"]), row["unit"], terminal.number(row.get("limit")),
              "–" if row.get("fraction_of_limit") is None else f"{row['fraction_of_limit']:.0%}") for row in rows]
    terminal.table("bench", ["name", ">value", "unit", ">limit", ">of limit"], cells)


@app.command()
def characterize(device: Annotated[Path, typer.Argument(metavar="DEVICE.yaml")],
                 only: Annotated[Optional[str], typer.Option(metavar="PART", help="dram, ufs, cpu, npu, ane, gpu or power.")] = None,
                 sensitivity: Annotated[bool, typer.Option("--sensitivity", help="Move each assumed parameter by 20 % both ways and "
                                                           "show how far the rows follow. Minutes.")] = False,
                 twins: Annotated[bool, typer.Option("--cross-fidelity", help="Instead: the flow models beside their detailed "
                                                     "twins, 5 % allowed. A minute or two.")] = False,
                 plugins: Plugins = None, as_json: Json = False):
    """The device models' own microbenchmarks beside the published values.

    Examples:

        vitro characterize configs/devices/oneplus12.yaml

        vitro characterize configs/devices/oneplus12.yaml --only ufs --json

        vitro characterize configs/devices/oneplus12.yaml --only dram --sensitivity

        vitro characterize configs/devices/oneplus12.yaml --cross-fidelity
    """
    from . import characterize as probing
    from . import cross_fidelity
    if twins and sensitivity:
        raise ConfigError("--cross-fidelity: compares models, --sensitivity moves parameters (expected one of the two)")
    with terminal.progress("characterize") as report:
        if twins:
            probing = cross_fidelity
            answer = cross_fidelity.cross_fidelity(device, only=only, progress=report)
        else:
            answer = probing.characterize(device, only=only, sensitivity=sensitivity, progress=report)
    if as_json:
        terminal.print_json(answer)
    else:
        probing.show(answer)


@app.command("list")
def list_(kind: Annotated[str, typer.Argument(metavar="devices|models|policies|kernels|plugins")],
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
        terminal.table("where their numbers come from", *catalog.provenance_table(rows))


@app.command()
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
