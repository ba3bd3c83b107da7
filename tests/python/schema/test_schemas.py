"""The schemas: they take every file of the tree, refuse what the engine refuses, and have the keys that the engine has."""
import copy
import json
import re
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT, environment

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks files against the schemas")

from vitro.schema import device, experiment, files
from vitro.schema.asking import NOBODY, Asker

PUBLISHED = ("experiment", "device", "plan", "engine", "model", "workload")
# Files of other kinds, with readers and messages of their own.
OTHERS = {"figures.yaml", "map.yaml", "peers-dram.yaml", "peers-flash.yaml", "peers-llama-cpp.yaml", "small.yaml", "suite.yaml"}
FOLDERS = {"devices": "device", "soc": "cluster", "cores": "cluster", "kernels": "cluster", "npu": "npu", "storage": "ufs",
           "models": "model", "engines": "engine", "workloads": "workload"}
KINDS = {"snapdragon_8_elite.yaml": "device", "policy.yaml": "cpu", "oneplus12_neon.yaml": "device", "device.yaml": "device",
         "offload-plan.yaml": "plan"}


class Loader(yaml.SafeLoader):
    """YAML as editors read it (1.2): `off` is a text, 350e9 is a number."""


Loader.yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"], "~": yaml.SafeLoader.yaml_implicit_resolvers["~"]}
for tag, pattern, first in (("null", r"^(null|~|)$", ["~", "n", ""]), ("bool", r"^(true|false)$", "tf"),
                            ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
                            ("float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", "-+.0123456789")):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


def load(text):
    return yaml.load(text, Loader)


@pytest.fixture(scope="module")
def checkers(has_native):
    made = {name: jsonschema.Draft7Validator(files.schema(name)) for name in files.MADE}
    for checker in made.values():
        checker.check_schema(checker.schema)
    return made


def kind_of(path):
    if path.name in OTHERS:
        return None
    if path.name in KINDS or path.stem.startswith("hexagon") and path.parent.name == "kernels":
        return KINDS.get(path.name, "npu")
    if path.is_relative_to(ROOT / "examples"):
        return "device"
    return FOLDERS[path.relative_to(ROOT / "configs").parts[0]] if path.is_relative_to(ROOT / "configs") else "experiment"


@pytest.mark.all
def test_every_file_of_the_tree_is_right(checkers):
    paths = [path for folder in ("configs", "experiments", "examples") for path in sorted((ROOT / folder).rglob("*.yaml"))]
    wrong, count = [], 0
    for path in paths:
        if kind := kind_of(path):
            count += 1
            tree = load(path.read_text())
            if path.parent.name == "soc" and kind == "device":
                tree["include"] = "the rest.yaml"  # others include it, and have what it lacks
            wrong += [f"{path.name}: {list(error.absolute_path)}: {error.message[:200]}"
                      for error in checkers[kind].iter_errors(tree)]
    assert not wrong and count > 90


def test_published_files_are_those_of_this_reader(has_native, tmp_path):
    """Asked in a process of their own: a schema also has the rules that a plug-in or a class brought to its process."""
    asked = "import pathlib, sys; from vitro.schema import files; [files.write(n, pathlib.Path(sys.argv[1], n)) for n in sys.argv[2:]]"
    subprocess.run([sys.executable, "-c", asked, tmp_path, *PUBLISHED], check=True, env=environment(ROOT / "python"))
    for name in PUBLISHED:
        path = ROOT / "docs/schema" / f"{name}.json"
        assert path.is_file() and path.read_text() == (tmp_path / name).read_text(), f"./vitro schema {name} --out docs/schema/{name}.json"


GOOD = """
experiment: small
device: ../configs/devices/oneplus12.yaml
model: {gguf: stories.gguf}
engine: {policy: mmap, units: [cpu0, cpu1], clusters: {staging: 4 MiB}, kv: {dram_tokens: 32}, numerics: off}
workload: {prompt: "Once upon a time", output_tokens: [4, 8], sampling: {temperature: 0}}
memory: {budget: 6 MiB}
expect: {speed: {metric: decode_tokens_per_s, value: 43.9, within: 15%}}
"""


@pytest.mark.parametrize("right, wrong", [
    ("policy: mmap", "polcy: mmap"), ("policy: mmap", "policy: mmapped"), ("experiment: small", "name: small"),
    ("6 MiB", "6"), ("6 MiB", "6 MHz"), ("6 MiB", "-6 MiB"), ("output_tokens: [4, 8]", "output_tokens: four"),
    ("output_tokens: [4, 8]", "output_tokens: 0"), ("staging: 4 MiB", "staging: 4 ms"), ("dram_tokens: 32", "dram_token: 32"),
    ("numerics: off", "numerics: of"), ("temperature: 0", "temperature: hot"), ("metric: decode", "metrik: decode"),
    ("units: [cpu0, cpu1]", "units: {cpu0: 1}")])
def test_a_planted_mistake_of_an_experiment_is_refused(checkers, right, wrong):
    assert checkers["experiment"].is_valid(load(GOOD))
    assert right in GOOD and not checkers["experiment"].is_valid(load(GOOD.replace(right, wrong)))


PHONE = """
name: my-phone
dram: {bandwidth: 51 GB/s, capacity: 12 GB, available: {value: 9 GB, kind: measured, source: a phone}}
cpu:
  bandwidth: 38 GB/s
  clusters:
    - {class: big, cores: 2, clock: 3.2 GHz, core_bandwidth: 22 GB/s, cluster_bandwidth: 38 GB/s, macs_per_cycle: {int8: {q4_0: 16}}}
ufs: {include: ../storage/ufs4_0.yaml, model: ufs, fidelity: detailed, page: 16 KiB}
"""


@pytest.mark.parametrize("right, wrong", [
    ("51 GB/s", "51 GB"), ("51 GB/s", "51"), ("kind: measured", "kind: guessed"), ("source: a phone", "sauce: a phone"),
    ("page:", "pages:"), ("clock: 3.2", "klock: 3.2"), ("cores: 2", "cores: 0"), ("fidelity: detailed", "fidelity: exact"),
    ("name: my-phone", "title: my-phone"), ("{q4_0: 16}", "{q4_0: many}"), ("dram:", "ram:")])
def test_a_planted_mistake_of_a_device_is_refused(checkers, right, wrong):
    assert checkers["device"].is_valid(load(PHONE))
    assert right in PHONE and not checkers["device"].is_valid(load(PHONE.replace(right, wrong, 1)))


def test_names_of_plug_ins_are_no_mistakes(checkers):
    fixed = re.sub(r"ufs: .*", "ufs: {model: fixed_ufs, latency: 40 us}", PHONE)
    assert checkers["device"].is_valid(load(fixed))
    assert not checkers["device"].is_valid(load(fixed.replace("model: fixed_ufs", "model: ufs")))
    mine = GOOD.replace("policy: mmap", "policy: neuron_cluster, weights: {eviction: mine}, placement: {kind: mine, options: {any: 1}}")
    assert checkers["experiment"].is_valid(load(mine.replace("units: [cpu0, cpu1], ", "")))


@pytest.mark.parametrize("right, wrong", [("vitro_plan: 1", "vitro_plan: 9"), ("ffn_in_dram: 50%", "ffn_in_dram: half"),
                                          ("policy: neuron_cluster", "policie: neuron_cluster"), ("fixed: 1246.391 MiB", "fixed: 1246"),
                                          ("      value: 32\n", "      value: many\n"), ("pipeline: cluster", "pipeline: clusters")])
def test_a_planted_mistake_of_a_plan_is_refused(checkers, right, wrong):
    text = (ROOT / "experiments/offload-plan.yaml").read_text()
    assert right in text and not checkers["plan"].is_valid(load(text.replace(right, wrong, 1)))


def keys_of(form, path=()):
    """-> every path of a map's keys, those of lists' items with their place."""
    for key, inner in form.keys.items():
        yield (*path, key), inner
        yield from keys_of(inner, (*path, key))
    if form.item is not None:
        yield from keys_of(form.item, (*path, 0))


@pytest.mark.parametrize("of", [(experiment, experiment.composed), (device, device.read)], ids=["experiment", "device"])
def test_the_engine_knows_each_key(checkers, of):
    module, complain = of
    ask, known = Asker(complain, module._BASE), module.forms()
    detailed = {top: ask.with_value((top, "fidelity"), "detailed") for top in ("dram", "ufs")}
    assert set(ask.said((NOBODY,), 1).choices) == set(known)
    asked = 0
    for top, form in known.items():
        if top == "model":
            continue  # what else it may have depends on whether it has weights: the files of configs/models
        for path, _ in keys_of(form, (top,)):
            said = None if 0 in path else ask.said(path, NOBODY)
            if said is not None and "unknown key" in said.problem:
                said = detailed[top].said(path, NOBODY)
            assert said is None or "unknown key" not in said.problem, said
            asked += said is not None
    assert asked > 40


def test_what_the_engine_takes_the_schema_takes(checkers):
    """Each example of the reader's own messages, and each word that it lists."""
    own = experiment.forms()["engine"]
    tried = 0
    for path, form in keys_of(own, ("engine",)):
        if 0 in path or form.kind not in ("choice", "quantity", "whole", "number", "switch"):
            continue
        for value in form.choices or [form.example]:
            tree = copy.deepcopy(load(GOOD)) | {"engine": {}}
            at = tree
            for key in path[:-1]:
                at = at.setdefault(key, {})
            at[path[-1]] = int(value) if isinstance(value, str) and value.isdigit() else value
            assert checkers["experiment"].is_valid(tree), (path, value)
            tried += 1
    assert tried > 150


def test_an_editor_has_something_to_show(checkers):
    bare = []

    def visit(node, name):
        for key, inner in node.get("properties", {}).items():
            if key != "include":
                bare.extend([] if "description" in inner else [f"{name}.{key}"])
                visit(inner, f"{name}.{key}")
        for inner in (node.get("items"), *node.get("anyOf", ())):
            if isinstance(inner, dict):
                visit(inner, name)

    visit(checkers["engine"].schema, "engine")
    visit(checkers["workload"].schema, "workload")
    assert len(bare) < 10, bare


@pytest.mark.all
def test_the_command_prints_and_writes(native, tmp_path):
    answer = native("schema", "workload")
    assert answer.code == 0 and answer.json["title"] == "vitro workload" and answer.out == files.text("workload")
    assert native("schema", "workload", "--out", tmp_path / "w.json").code == 0
    assert json.loads((tmp_path / "w.json").read_text()) == answer.json
    wrong = native("schema", "phone")
    assert wrong.code == 2 and 'there is no "phone" (expected experiment, device, plan' in wrong.err
