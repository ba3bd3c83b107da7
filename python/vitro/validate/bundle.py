"""`vitro bundle`: a suite to be run on a machine that has no vitro, such as a phone (docs/guide/on-device.md).

A bundle is one archive: the static `vitro-device`, the models, the experiments as resolved, and a script that runs them all and
leaves results that `vitro validate --host-results` reads. Beside each run, another script samples what the system shows of power.
"""
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import checkout, device_program, outputs, terminal
from ..base.options import NoCode
from ..base.whole_files import in_place
from ..errors import ConfigError
from ..running import experiments
from .suite import load

_SCRIPT = """#!/bin/sh
# Runs every experiment of this bundle: once with a trace, which warms caches and does not count, then {runs} times.
# RUNNER=qemu-aarch64 ./run.sh runs it under an emulator. Arguments: the experiments to run; none: all.
# Beside each run that counts, sample.sh looks at battery, clocks and heat; SAMPLES=off: not. SYS, PROC and INTERVAL are its own.
cd "$(dirname "$0")" || exit 1
mkdir -p results
failed=0
one() {{
  mkdir -p "results/$1/$2"
  echo "$1 $2" >&2
  sampler= began= ended= more=
  if [ "$2" = traced ]; then
    more="--out results/$1/traced"
  elif [ "$SAMPLES" != off ]; then
    sh ./sample.sh "results/$1/$2/samples.jsonl" &
    sampler=$!
    sleep 1
  fi
  read -r began rest < "${{PROC:-/proc}}/uptime"
  if $RUNNER ./vitro-device run "experiments/$1.json" --cache cache $more > "results/$1/$2/stdout.json"; then
    mv "results/$1/$2/stdout.json" "results/$1/$2/result.json"
  else
    failed=1
    rm -f "results/$1/$2/stdout.json"
  fi
  read -r ended rest < "${{PROC:-/proc}}/uptime"
  if [ -n "$sampler" ]; then
    sleep 1
    kill "$sampler"
    wait "$sampler" 2> /dev/null
    printf '{{"began_s":%s,"ended_s":%s}}\\n' "${{began:-null}}" "${{ended:-null}}" > "results/$1/$2/when.json"
  fi
}}
all="{ids}"
if [ $# -gt 0 ]; then all="$*"; fi
for id in $all; do one "$id" traced; done
for turn in {turns}; do
  for id in $all; do one "$id" "$turn"; done
done
exit $failed
"""


def bundle(suite, target, *, binary, runs=5):
    """Writes the archive. -> {"path", "bytes", "experiments", "models"}"""
    target, binary = Path(target), Path(binary)
    if not binary.is_file():
        raise ConfigError(f"--binary: {binary}: no such file (for a phone, cmake --preset aarch64 && ninja -C build/aarch64 vitro-device "
                          "makes one; for this machine, cmake --preset release && ninja -C build/release vitro-device)")
    names = [_file_name(case.id) for case in suite.cases]
    if len(set(names)) < len(names):
        raise ConfigError(f"{suite.name}: two experiments have one file name")
    models = {case.gguf: f"models/{case.gguf.name}" for case in suite.cases}
    with in_place(target) as part, tarfile.open(part, "w:gz", compresslevel=1) as archive:
        archive.add(binary, "vitro-bundle/vitro-device")
        for model, name in models.items():
            archive.add(model, f"vitro-bundle/{name}")
        for case, name in zip(suite.cases, names):
            resolved = experiments.resolve(case.experiment, overrides=[*case.overrides, "machine=host"])
            resolved["model"] = resolved["model"] | {"gguf": models[case.gguf]}
            resolved["experiment"] = case.id
            _add_text(archive, f"experiments/{name}.json", json.dumps(resolved, indent=1))
        script = _SCRIPT.format(runs=runs, ids=" ".join(names), turns=" ".join(str(i + 1) for i in range(runs)))
        _add_text(archive, "run.sh", script, mode=0o755)
        _add_text(archive, "sample.sh", (Path(__file__).parent / "sample.sh").read_text(), mode=0o755)
    return {"path": str(target), "bytes": target.stat().st_size, "experiments": names, "models": sorted(models.values())}


def _file_name(name):
    """Ids have signs that shells and archives of a phone need not like."""
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in name)


def _add_text(archive, name, text, mode=0o644):
    info = tarfile.TarInfo(f"vitro-bundle/{name}")
    info.size, info.mode = len(text.encode()), mode
    archive.addfile(info, io.BytesIO(text.encode()))


def built_for(target):
    """The `vitro-device` of an installed package, for its own machine, or of a build in this checkout."""
    if target == platform.machine() and (packed := device_program.path()):
        return packed
    preset = "release" if target == platform.machine() else target
    return checkout.root() / "build" / preset / "engine" / "app" / "vitro-device"


def command(suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml")],
            out: Annotated[Path, typer.Option(metavar="FILE.tar.gz", help="The archive to write.")],
            target: Annotated[str, typer.Option(metavar="aarch64|x86_64", help="The machine that it is for.")] = "aarch64",
            binary: Annotated[Optional[Path], typer.Option(metavar="FILE", help="A vitro-device from elsewhere.")] = None,
            runs: Annotated[int, typer.Option(min=1, help="Runs of each experiment.")] = 5,
            only: Annotated[Optional[str], typer.Option(metavar="TEXT", help="Experiments whose id contains this.")] = None,
            no_code: NoCode = False,
            as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False):
    """Pack a suite for a machine that has no vitro: one archive to unpack and run.

    Examples:

        vitro bundle experiments/validation/suite.yaml --out bundle.tar.gz --only 200m

        vitro validate experiments/validation/suite.yaml --device phone.yaml --host-results vitro-bundle/results
    """
    outputs.file(out, "--out")
    with terminal.progress("models") as report:
        wanted = load(suite, make=True, progress=report)
    cases = [case for case in wanted.cases if not only or only in case.id]
    if not cases:
        raise ConfigError(f'--only: no experiment of {suite} contains "{only}"')
    answer = bundle(type(wanted)(wanted.name, cases, wanted.bounds), out, binary=binary or built_for(target), runs=runs)
    if as_json:
        terminal.print_json(answer)
    else:
        print(f"{answer['path']}: {terminal.size(answer['bytes'])}, {len(answer['experiments'])} experiments, "
              f"{len(answer['models'])} models")
