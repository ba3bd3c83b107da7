"""Sweeps whose processes are killed (SIGKILL) at random times, on any executor: docs/design/study-store.md, "What a kill costs".

    PYTHONPATH=python .venv/bin/python experiments/validation/killed_sweeps.py --on local --kills 40 [--seed 1]
    PYTHONPATH=python .venv/bin/python experiments/validation/killed_sweeps.py --on dask --kills 40
    PYTHONPATH=python .venv/bin/python experiments/validation/killed_sweeps.py --on slurm --kills 10    # of one node on loopback

24 simulated points are swept undisturbed first. Then the same sweep is started in another folder, killed, and gone on with (--resume) until
it ends by itself; then comes the next folder, until there were --kills. Three of four kills hit the command, the others a process that it
started: a run, or a worker of Dask with its run. When they come is drawn from the time that the undisturbed sweep took, so some hit the
start, some a run, some the end. After each kill no process of the command may be left after ten seconds, and each row that had finished
must be as it was. At the end of a folder each point must have one row, in the parts and in the index, equal to the undisturbed one but for
times.
"""
import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import vitro
from vitro.study import parts
from vitro.study.store import Store

ROOT = Path(__file__).parents[2]
POINTS = 24
STUDY = f"""
experiment: killed
machine: sim
device: {ROOT}/configs/devices/oneplus12.yaml
model: {{gguf: {ROOT}/configs/models/embedded/stories-reglu-3m.f16.gguf}}
engine: {{policy: mmap}}
workload: {{prompt_tokens: 4, output_tokens: 6, stop_at_eos: false}}
memory: {{budget: 5 MiB}}
sweep: {{workload.seed: {list(range(1, POINTS + 1))}}}
"""


def start(folder: Path, on: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Output goes to a file: a pipe stays open as long as any child has it."""
    (folder / "e.yaml").write_text(STUDY)
    command = [sys.executable, "-m", "vitro", "sweep", "e.yaml", "--out", "o", "--resume", "--on", on]
    with open(folder / "said.txt", "ab") as said:
        return subprocess.Popen([*command, *([] if on.startswith("slurm:") else ["--workers", "2"])], cwd=folder, env=env, stdout=said,
                                stderr=said, start_new_session=True)


def of_session(leader: int) -> list[int]:
    """The processes of a session, but for those that have ended and wait to be told."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def answers(folder: Path) -> dict[str, object]:
    """By identity, without the times that a clock told."""
    if not (folder / "o/store/format.json").exists():
        return {}
    return {row["identity"]: json.loads(row["answer"]) | {"wall_s": None} for row in vitro.rows(folder / "o").to_dict("records")}


def check_end(folder: Path, calm: dict[str, object]) -> None:
    assert answers(folder) == calm, f"{folder}: the rows differ from those of the undisturbed sweep"
    with Store(folder / "o") as study:
        listed = [row["identity"] for name in parts.listed(study.parts) for row in parts.read(study.parts / name)]
        assert len(listed) == len(set(listed)) == POINTS == len(study.index.rows()), f"{folder}: {len(listed)} rows in the parts"


def wait_for_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    until = time.monotonic() + seconds
    while left := of_session(process.pid):
        assert time.monotonic() < until, f"processes {left} are left of a command that was killed"
        time.sleep(0.05)


def disturbed(folder: Path, on: str, env: dict[str, str], calm: dict[str, object], seconds: float, chance: random.Random,
              most: int) -> int:
    """Until a sweep in this folder ends by itself. -> how many kills there were."""
    count, before = 0, dict[str, object]()
    while True:
        process = start(folder, on, env)
        try:
            if count >= most:
                process.wait(timeout=1200)
            while process.poll() is None:
                process.wait(timeout=chance.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            within = [one for one in of_session(process.pid) if one != process.pid]
            victim = chance.choice(within) if within and chance.random() < 0.25 else process.pid
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            count += 1
            if victim != process.pid:  # the command sees to it, and ends by itself
                process.wait(timeout=1200)
            else:
                process.wait()
                wait_for_end(process, 10)
        now = answers(folder)
        assert before.items() <= now.items(), f"{folder}: a finished row is gone or was changed"
        before = now
        if process.returncode == 0:
            check_end(folder, calm)
            return count
        said = (folder / "said.txt").read_text()[-2000:]
        assert process.returncode in (-signal.SIGKILL, 1), f"{folder}: code {process.returncode}\n{said}"


@contextlib.contextmanager
def place(on: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """-> what --on takes, and the environment of the command."""
    if on != "slurm":
        yield on, dict(os.environ)
        return
    sys.path.insert(0, str(ROOT / "tests/python/execute"))
    import loopback_slurm
    (folder / "slurm.yaml").write_text(f"""
jobs: 1
cores: 2
memory: 500 MB
walltime: "00:30:00"
interface: lo
python: {sys.executable}
log_directory: {folder}/logs
job_script_prologue: ["export PYTHONPATH={ROOT}/python"]
worker_extra_args: ["--death-timeout", "10"]
patience: 120
""")
    with loopback_slurm.slurm(folder / "daemons", cores=2) as env:
        yield f"slurm:{folder}/slurm.yaml", env


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=("local", "dask", "slurm"), default="local")
    for name, default in (("kills", 40), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    chance, count, folders = random.Random(asked.seed), 0, 0
    with tempfile.TemporaryDirectory() as name, place(asked.on, Path(name)) as (on, env):
        calm_folder = Path(name) / "calm"
        calm_folder.mkdir()
        began = time.monotonic()
        process = start(calm_folder, on, env)
        assert process.wait(timeout=1200) == 0, (calm_folder / "said.txt").read_text()
        seconds, calm = time.monotonic() - began, answers(calm_folder)
        check_end(calm_folder, calm)
        print(f"{asked.on}: undisturbed {seconds:.1f} s", flush=True)
        while count < asked.kills:
            folder = Path(name) / str(folders)
            folder.mkdir()
            count += disturbed(folder, on, env, calm, seconds, chance, asked.kills - count)
            folders += 1
            print(f"{asked.on}: {count} kills, {folders} folders with {POINTS} rows each once, equal to the undisturbed sweep", flush=True)


if __name__ == "__main__":
    main()
