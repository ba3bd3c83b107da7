"""The `vitro` command. Exit codes: 0 done, 1 the run failed or an expectation did not hold, 2 the input was wrong."""
import errno
import os
from pathlib import Path
from typing import Annotated, Optional

import typer

from . import __version__, api, expect, scaling, terminal, validity
from .bundle import command as bundle
from .calibrate import command as calibrate
from .errors import ConfigError, VitroError
from .model_cli import graph, make_model, predictors, profile, tokenize, workload
from .pack_cli import pack
from .plan_cli import plan
from .quality_cli import perplexity, quality, quantize
from .reproduce_cli import reproduce
from .trace_cli import trace_app
from .validate_cli import command as validate

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, pretty_exceptions_enable=False,
                  context_settings={"help_option_names": ["-h", "--help"]})
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

Sets = Annotated[Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="Override one value; may be repeated.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def _plugins(paths):
    """Runs take plug-ins from the environment, which their processes inherit."""
    if paths:
        kept = os.environ.get("VITRO_PLUGINS")
        os.environ["VITRO_PLUGINS"] = os.pathsep.join([*([kept] if kept else []), *(str(path.absolute()) for path in paths)])


Plugins = Annotated[Optional[list[Path]], typer.Option("--plugin", metavar="FILE.so", callback=_plugins,
                                                       help="Load device models from a shared object; may be repeated.")]


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

        vitro run experiments/quickstart.yaml --machine sim --set "memory.budget=6 MiB"

        vitro list devices
    """


@app.command()
def run(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
        machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
        sets: Sets = None,
        out: Annotated[Optional[Path], typer.Option(metavar="DIR", help="Folder for result.json, trace.json, decisions.jsonl and "
                                                    "report.html.")] = None,
        resolve: Annotated[bool, typer.Option("--resolve", help="Print the experiment as resolved, for vitro-device, and run "
                                              "nothing.")] = False,
        band: Annotated[bool, typer.Option("--band", help="Sim on a calibrated device: two more runs give each metric an error "
                                           "band.")] = False,
        plugins: Plugins = None, as_json: Json = False):
    """Run one experiment.

    Examples:

        vitro run experiments/quickstart.yaml

        vitro run experiments/quickstart.yaml --machine host --set engine.policy=mmap --set "memory.budget=6 MiB" --out out/mmap

        vitro run experiments/quickstart.yaml --json | jq .metrics.decode_tokens_per_s
    """
    if machine not in (None, "sim", "host"):
        raise ConfigError(f'--machine: "{machine}" is neither sim nor host')
    resolved = api.resolve(experiment, overrides=[*(sets or []), *([f"machine={machine}"] if machine else [])])
    if resolve:
        terminal.print_json(resolved)
        return
    expect.check(resolved.get("expect"))
    with terminal.progress(experiment.stem) as report:
        result = api.run(experiment, overrides=sets, machine=machine, out=out, progress=report)
    if band:
        result = validity.with_band(result)
    judged = result.expectations
    if as_json:
        terminal.print_json(result.data)
    else:
        _print_run(result, judged)
    if out:
        from .report import write_run
        page = write_run(result, out)
        if not as_json:
            print(f"report: {page}")
    if any(row["status"] == "off" for row in judged):
        raise typer.Exit(1)


def _print_run(result, judged):
    from .result import flatten, named
    metrics = {name: value for name, value in flatten(result.metrics).items() if not isinstance(value, list)}
    rows = [(name, terminal.number(metrics[name])) for name in named(metrics, (result.get("experiment_resolved") or {}).get("metrics"))]
    terminal.table(f"{result['experiment']} on {result.machine}", ["metric", ">value"], rows)
    if (speed := (result.get("prediction_band") or {}).get("decode_tokens_per_s")) is not None:
        print(f"error band of decode: {terminal.number(speed[0])} to {terminal.number(speed[1])} tokens/s")
    if scaled := result.get("scaling"):
        terminal.table(f"{scaled['method']}: {result.metric('scaling.generated_tokens')} tokens in "
                       f"{terminal.number(result.metric('scaling.latency_ms'))} ms, * is chosen", *scaling.rows(scaled))
    if result.text:
        print(result.text.strip())
    for note in result.get("notes", []):
        print(f"note: {note}")
    for row in judged:
        print(f"expect {row['id']}: {row['metric']} {terminal.number(row['measured'])} {row['relation']} "
              f"{terminal.number(row['expected'])}: {row['status']}")


@app.command()
def sweep(experiment: Annotated[Path, typer.Argument(metavar="EXP.yaml")],
          out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.parquet, results.csv and report.html.")],
          workers: Annotated[Optional[int], typer.Option(min=1, help="Runs at a time. Default: all cores for sim, 1 for host, where "
                                                         "runs would disturb each other.")] = None,
          dask: Annotated[Optional[str], typer.Option(metavar="ADDRESS", help="Run on a Dask cluster instead.")] = None,
          resume: Annotated[bool, typer.Option("--resume", help="Keep the points that are done.")] = False,
          machine: Annotated[Optional[str], typer.Option(help="sim or host, over the file's own.")] = None,
          sets: Sets = None, plugins: Plugins = None, as_json: Json = False):
    """Run every point of the experiment's `sweep:`.

    Examples:

        vitro sweep experiments/quickstart.yaml --out out/quickstart

        vitro sweep experiments/quickstart.yaml --out out/quickstart --workers 4 --resume

        vitro sweep experiments/quickstart.yaml --out out/quickstart --dask tcp://scheduler:8786
    """
    from . import grid
    with terminal.progress(experiment.stem) as report:
        frame = grid.sweep(experiment, out=out, workers=workers, dask=dask, resume=resume, overrides=sets, machine=machine,
                           progress=report)
    failed = frame[frame["status"] == "failed"]
    if as_json:
        terminal.print_json({"schema": "vitro.sweep/1", "out": str(out), "rows": grid.as_records(frame)})
    else:
        terminal.table(f"{experiment.stem}: {len(frame)} points", *grid.readable(frame))
        print(f"report: {out / 'report.html'}")
    if len(failed):
        first = failed.iloc[0]
        terminal.say(f"vitro: {len(failed)} of {len(frame)} points failed; the first one (point {first['point']}): {first['error']}")
        raise typer.Exit(1)
    if (frame["status"] == "off").any():
        raise typer.Exit(1)


@app.command()
def bench(kind: Annotated[Optional[str], typer.Argument(metavar="[kernels|sim|engine]")] = None,
          smoke: Annotated[bool, typer.Option("--smoke", help="A few iterations, to see that it works.")] = False,
          as_json: Json = False):
    """Performance of this build on this machine, each row beside its physical limit.

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
        terminal.say(f"vitro: {error.format_message()} (see --help)")
        return getattr(error, "exit_code", 2)
    except BrokenPipeError:  # `vitro ... | head` is no failure of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        terminal.say(f"vitro: {error.filename or 'input/output'}: {error.strerror or error}")
        return 2 if error.errno in _INPUT_ERRORS else 1
