"""Every block of README and docs: commands run, YAML holds against the schemas, Python runs; or it is excused by name (doc_commands.py)."""
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import doc_commands as listed
import pytest
import typer.main
import yaml
from conftest import ROOT
from vitro import cli

EMBEDDED = ROOT / "configs" / "models" / "embedded"
COMMANDS = ("", "sh", "text")
# YAML whose top is no part of an experiment: what it is a part of, or why it has no schema.
DEVICES = {"docs/guide/adding-a-device.md", "docs/guide/plugins.md"}
NO_SCHEMA = {"docs/design/executor.md": "of dask-jobqueue", "docs/design/faults.md": "faults have a reader of their own",
             "docs/design/power.md": "has an ellipsis", "docs/guide/planning.md": "a plan with ellipses"}
PARTS = {"docs/guide/sweeps.md": "sweep"}  # blocks that begin within a map of this key
WHOLE = {"experiment": "e", "machine": "host", "model": {"gguf": "m.gguf"}, "workload": {"prompt": "Once"}}
# Python that another test runs, and what takes too long.
PYTHON_ELSEWHERE = {"README.md": "tests/python/engine/test_native.py",
                    "docs/guide/policies-in-python.md": "tests/python/policy/test_classes.py",
                    "docs/guide/adding-a-device.md": "tests/python/device/test_adding_a_device.py"}
OTHER_LANGUAGES = {"cpp": "compiled by the tests of the pages' parts", "cmake": "adding-a-device", "lua": "of an editor", "json": "parsed"}


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def at(self):
        return f"{self.page}:{self.line}"


def blocks():
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text()
        for match in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            found.append(Block(str(path.relative_to(ROOT)), text.count("\n", 0, match.start()) + 1, match[2], textwrap.dedent(match[3])))
    return found


ALL = blocks()


def commands(block):
    """-> as they stand there: lines joined, without comments, `./` and what is behind a pipe or `>`."""
    for line in block.text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s+#.*$|^#.*$", "", line).strip().removeprefix("./")
        line = re.sub(r"\s+(\| jq .*|[<>] [\w.]+)$", "", line)
        if line:
            yield re.sub(r"\s{2,}", " ", line)


def excuse(command):
    return next((why for start, why in listed.EXCUSED.items() if command.startswith(start.strip()) or command == start.strip()), None)


SAID = {command: block.at for block in ALL if block.language in COMMANDS and block.page not in listed.ELSEWHERE
        for command in commands(block)}


def test_languages_are_known_and_tests_elsewhere_are_there():
    assert {block.language for block in ALL} <= {*COMMANDS, "yaml", "python", *OTHER_LANGUAGES}
    assert all((ROOT / test).is_file() for test in (*listed.ELSEWHERE.values(), *PYTHON_ELSEWHERE.values()))
    for block in ALL:
        if block.language == "json":
            json.loads(block.text)


def test_every_command_runs_or_is_excused_and_no_entry_is_stale():
    lost = [f"{at}: {command}" for command, at in SAID.items()
            if command not in listed.RUN and command not in listed.ALL and excuse(command) is None]
    assert not lost
    assert not [command for command in (*listed.RUN, *listed.ALL) if command not in SAID]
    assert not [start for start in listed.EXCUSED if not any(command.startswith(start.strip()) for command in SAID)]


def test_excused_commands_have_options_that_there_are(monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())  # options such as --no-code put their wish there
    group = typer.main.get_command(cli.app)
    for command, at in SAID.items():
        if not command.startswith(("vitro ", "sudo vitro ")):
            continue
        words = shlex.split(command.removeprefix("sudo ").split("&&")[0])
        if words[1] in ("test", "--help") or "..." in words:
            continue
        chosen, rest = group.get_command(typer.Context(group), words[1]), words[2:]
        if words[1] == "trace":
            chosen, rest = chosen.get_command(typer.Context(chosen), words[2]), words[3:]
        try:
            chosen.parse_args(typer.Context(chosen), list(rest))
        except Exception as error:
            pytest.fail(f"{at}: {command}: {error}")


@pytest.fixture(scope="module")
def folder(has_native, tmp_path_factory):
    """As the pages see it: a checkout, with models and texts of the names that they use."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("configs", "experiments", "examples", "traces"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("MODEL.gguf", "MODEL.q4_0.gguf"):
        (folder / name).symlink_to(EMBEDDED / "stories-reglu-3m.q4_0.gguf")
    for name in ("model.gguf", "model.f16.gguf", "base.gguf"):
        (folder / name).symlink_to(EMBEDDED / "stories-reglu-3m.f16.gguf")
    (folder / "TEXT").write_text("Once upon a time there was a little girl. She had a ball.\n")
    (folder / "faults.yaml").write_text(next(block.text for block in ALL if block.page == "docs/design/faults.md"
                                             and block.language == "yaml"))
    return folder


def run(folder, words, where):
    env = {key: value for key, value in os.environ.items() if not key.startswith("VITRO_")} | {"PYTHONPATH": str(ROOT / "python")}
    with open(folder / "TEXT") as text:
        done = subprocess.run([sys.executable, *words], cwd=folder, env=env, stdin=text, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{where}\n{done.stdout[-1000:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("command", [*(pytest.param(command, marks=pytest.mark.all) for command in listed.ALL), *listed.RUN])
def test_a_command_runs(folder, command):
    words = shlex.split(command)[1:]
    run(folder, ["-m", "vitro", *words, *(listed.ALL | listed.RUN)[command]], f"{SAID[command]}: {command}")


def parts_of(block):
    """-> trees of one block: several, where its lines are alternatives."""
    try:
        return [yaml.load(block.text, Unique)]
    except yaml.YAMLError:
        return [yaml.safe_load(line) for line in block.text.splitlines()]


class Unique(yaml.SafeLoader):
    """Refuses a key that stands twice."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError("a key stands twice")
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "yaml"], ids=lambda block: block.at)
def test_yaml_holds(block, has_native):
    jsonschema = pytest.importorskip("jsonschema")
    from vitro.schema import files
    if block.page in NO_SCHEMA:
        if "..." not in block.text:
            assert yaml.safe_load(block.text)
        return
    for tree in parts_of(block):
        if block.page in DEVICES:
            known = set(files.schema("device")["properties"])
            assert set(tree) <= known, f"{block.at}: no keys of a device: {set(tree) - known}"
            continue
        if (inside := PARTS.get(block.page)) and inside not in tree:
            tree = {inside: {"design": "search", "trials": 1, "objectives": {"a": "maximize"}, "over": {"seed": [1]}} | tree}
        whole = WHOLE | {key: value for key, value in tree.items()}
        if isinstance(tree.get("workload"), dict):
            whole["workload"] = tree["workload"] if "prompt" in tree["workload"] else WHOLE["workload"] | tree["workload"]
        wrong = list(jsonschema.Draft7Validator(files.schema("experiment")).iter_errors(whole))
        assert not wrong, f"{block.at}: {wrong[0].json_path}: {wrong[0].message[:300]}"


PAGES = sorted({block.page for block in ALL if block.language == "python"} - PYTHON_ELSEWHERE.keys())


@pytest.mark.all
@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page_runs(folder, page):
    """In its order, as one text. The sensitivity of a whole phone takes minutes, so its runs are few."""
    text = "\n".join(block.text for block in ALL if block.language == "python" and block.page == page)
    text = text.replace('vitro.sensitivity("experiments/offload.yaml")', 'vitro.sensitivity("experiments/offload.yaml", samples=2, '
                        'parameters=["dram.latency"], overrides={"workload.output_tokens": 3, "workload.prompt_tokens": 2})')
    text = text.replace('vitro.sweep("experiments/policies.yaml", out="out/policies")',
                        'vitro.sweep("experiments/policies.yaml", out="out/policies", overrides={"workload.output_tokens": 2})')
    (folder / "page.py").write_text(f"import matplotlib\nmatplotlib.use('Agg')\n{text}\n")
    run(folder, ["page.py"], page)
