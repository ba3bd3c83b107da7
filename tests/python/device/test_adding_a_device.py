"""The guide, as a new user would follow it: docs/guide/adding-a-device.md block by block."""
import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass

import pytest
from conftest import ROOT

GUIDE = ROOT / "docs" / "guide" / "adding-a-device.md"


@dataclass
class Block:
    line: int
    language: str
    text: str

    @property
    def file(self):
        """The name in a first line that is a comment, if it is one of a file."""
        match = re.match(r"(?:#|//) ([\w./]+\.\w+)\n", self.text)
        return match and match.group(1)


def blocks():
    text = GUIDE.read_text()
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)) for match in found]


@pytest.fixture
def checkout(native, tmp_path):
    """A folder as the guide sees it, with `vitro` on the path."""
    for name in ("configs", "experiments"):
        (tmp_path / name).symlink_to(ROOT / name)
    command = tmp_path / "bin" / "vitro"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vitro "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return tmp_path, native.env | {"PATH": f"{command.parent}:{os.environ['PATH']}", "CMAKE_BUILD_PARALLEL_LEVEL": "1"}


def run(command, folder, env, where):
    answer = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, f"{where}:\n{answer.stdout[-2000:]}{answer.stderr[-4000:]}"
    return answer.stdout + answer.stderr


@pytest.mark.all
def test_every_block_does_what_the_guide_says(checkout):
    folder, env = checkout
    said, notebook, seen = "", "", set()
    for block in blocks():
        where = f"{GUIDE.name}:{block.line} ({block.language})"
        seen.add(block.language)
        if block.file:
            (folder / block.file).parent.mkdir(exist_ok=True)
            (folder / block.file).write_text(block.text)
        elif block.language == "sh":
            said = run(["bash", "-e", "-c", block.text], folder, env, where)
        elif block.language == "text":
            assert block.text.strip() in said, where
        else:
            assert block.language == "python", where
            notebook += "\n" * (block.line - notebook.count("\n")) + block.text  # lines of a traceback are those of the guide
    (folder / "notebook.py").write_text(notebook)
    run([sys.executable, "notebook.py"], folder, env, GUIDE.name)
    assert {"yaml", "cpp", "cmake", "sh", "python"} <= seen
    assert (folder / "faster_phone.yaml").exists()
    check_the_plugins_law(folder, env)


def check_the_plugins_law(folder, env):
    """What 900 us more of latency cost a token that is paged from flash is a whole number of waits."""
    def token_s(latency):
        answer = run(["vitro", "run", "experiments/quickstart.yaml", "--json", "--set", "device=fixed_phone.yaml",
                      "--set", f"device.ufs.latency={latency}", "--set", "engine.policy=mmap", "--set", "memory.budget=6 MiB",
                      "--set", "workload.output_tokens=4"], folder, env, latency)
        return 1 / json.loads(answer)["metrics"]["decode_tokens_per_s"]
    waits = (token_s("1 ms") - token_s("100 us")) / 900e-6
    assert waits >= 1 and waits == pytest.approx(round(waits), abs=1e-3)
