"""Each way by which a study could bring code is refused by --no-code before any of it is loaded, and works without.

A shared object that leaves a mark when it is loaded, and Python that does, stand for what a stranger would send.
"""
import subprocess

import pytest
import vitro
from conftest import ROOT
from vitro import scaling
from vitro.base import attachments
from vitro.execute import remote, slurm
from vitro.execute.task import Limits, Task
from vitro.policy import files

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
SMALL = {"experiment": "small", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"),
         "model": {"shape": {"name": "tiny", "layers": 1, "width": 64, "heads": 2, "kv_heads": 2, "ffn": 64, "vocab": 64, "context": 64},
                   "format": "q4_0"},
         "engine": {"numerics": "off"}, "workload": {"prompt_tokens": 4, "output_tokens": 2}}
REFUSED = "is code, which --no-code (VITRO_NO_CODE) refuses"


@pytest.fixture
def folder(native):
    """Where commands run; code there leaves the file `mark` when it is loaded."""
    where, mark = native.folder, native.folder / "mark"
    (where / "evil.c").write_text(f'#include <stdio.h>\n__attribute__((constructor)) static void mark(void) {{ fopen("{mark}", "w"); }}\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", where / "evil.so", where / "evil.c"], check=True)
    python = f'open({str(mark)!r}, "w").close()\n'
    (where / "evil.py").write_text(
        f"{python}import vitro\n\nclass Rule(vitro.Eviction):\n    def victim(self, held):\n        return None\n")
    (where / "evil.sh").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (where / "evil.sh").chmod(0o755)
    (where / "phone.yaml").write_text("include: vitro:devices/oneplus12\n" + "plugins: [evil.so]\n")
    (where / "tlm.yaml").write_text("include: vitro:devices/oneplus12\n" + "dram: {kind: spec, model: tlm, plugin: evil.so}\n")
    (where / "display.yaml").write_text("include: vitro:devices/oneplus12\n" + "initiators: {display: {plugin: evil.so}}\n")
    text = QUICKSTART.read_text().replace("../", f"{ROOT}/")
    (where / "plain.yaml").write_text(text)
    (where / "device.yaml").write_text(text + "plugins: [evil.so]\n")
    (where / "swept.yaml").write_text("include: plain.yaml\nsweep:\n  engine.plugins: [[evil.so]]\n")
    (where / "tasks.jsonl").write_text('{"prompt": "Once", "answer": "1"}\n')
    return where


# What is run, and where the refusal says that the code was named: file and line, or the option.
WAYS = {
    "plug-ins of an experiment": (["run", "device.yaml"], 'device.yaml:{last}: plugins: "evil.so"'),
    "of a device": (["run", "plain.yaml", "--set", "device=phone.yaml"], 'phone.yaml:2: device.plugins: "evil.so"'),
    "of the engine's parts": (["run", "plain.yaml", "--set", "engine.plugins=[evil.so]"], 'engine.plugins: "evil.so"'),
    "a memory in SystemC": (["run", "plain.yaml", "--set", "device=tlm.yaml"], 'tlm.yaml:2: device.dram.plugin: "evil.so"'),
    "an initiator in SystemC": (["run", "plain.yaml", "--set", "device=display.yaml"],
                                'display.yaml:2: device.initiators.display.plugin: "evil.so"'),
    "--plugin": (["run", "plain.yaml", "--plugin", "evil.so"], "--plugin or VITRO_PLUGINS: "),
    "--policy": (["run", "plain.yaml", "--policy", "evil.py:Rule"], "--policy: evil.py:Rule"),
    "a sweep's axis": (["sweep", "swept.yaml", "--out", "out"], 'engine.plugins: "evil.so"'),
    "a sweep of an experiment": (["sweep", "device.yaml", "--out", "out"], 'device.yaml:{last}: plugins: "evil.so"'),
    "--policy of a sweep": (["sweep", "plain.yaml", "--out", "out", "--policy", "evil.py:Rule"], "--policy: evil.py:Rule"),
    "a search": (["search", "device.yaml", "--out", "out"], 'device.yaml:{last}: plugins: "evil.so"'),
    "a sensitivity": (["sensitivity", "device.yaml", "--out", "out"], 'device.yaml:{last}: plugins: "evil.so"'),
    "tasks": (["tasks", "device.yaml", "tasks.jsonl", "--out", "out"], 'device.yaml:{last}: plugins: "evil.so"'),
    "a checking program": (["tasks", "plain.yaml", "tasks.jsonl", "--out", "out", "--check", "./evil.sh"], "--check: ./evil.sh"),
    "a workload": (["workload", "device.yaml"], 'device.yaml:{last}: plugins: "evil.so"'),
    "a device's figures": (["characterize", "phone.yaml"], 'phone.yaml:2: plugins: "'),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_refused_with_file_line_key_and_value(native, folder, way):
    words, where = WAYS[way]
    last = len((folder / "device.yaml").read_text().splitlines())
    answer = native(*words, "--no-code")
    assert answer.code == 2, answer.err
    assert where.format(last=last) in answer.err and REFUSED in answer.err, answer.err
    assert answer.err.count("\n") == 1 and not (folder / "mark").exists() and not (folder / "out").exists()


@pytest.mark.parametrize("way", ["plug-ins of an experiment", "of a device", "of the engine's parts", "a memory in SystemC",
                                 "an initiator in SystemC", "--plugin", "--policy"])
def test_without_it_the_same_words_load_the_code(native, folder, way):
    assert REFUSED not in native(*WAYS[way][0]).err
    assert (folder / "mark").exists()


def test_the_environment_says_it_as_well(native, folder):
    answer = native("run", "device.yaml", env={"VITRO_NO_CODE": "1"})
    assert answer.code == 2 and REFUSED in answer.err and not (folder / "mark").exists()
    answer = native("run", "plain.yaml", env={"VITRO_NO_CODE": "1", "VITRO_PLUGINS": str(folder / "evil.so")})
    assert answer.code == 2 and REFUSED in answer.err and not (folder / "mark").exists()


def test_data_runs_as_ever(native, folder):
    assert native("run", "plain.yaml", "--no-code", "--json").json["tokens"] == native("run", "plain.yaml", "--json").json["tokens"]


def test_a_suite_is_refused_before_models_are_made(native, folder):
    answer = native("validate", ROOT / "experiments" / "validation" / "small.yaml", "--device", "phone.yaml", "--no-code")
    assert answer.code == 2 and REFUSED in answer.err and not (folder / "mark").exists(), answer.err


def test_a_reproduction_stops_at_the_first(native, folder):
    answer = native("reproduce", "--no-code", "--only", "pi2_t6_bamboo_tps", env={"VITRO_PLUGINS": str(folder / "evil.so")})
    assert answer.code == 2 and REFUSED in answer.err and not (folder / "mark").exists(), answer.err


def test_pickled_objects_are_neither_made_nor_read(native, monkeypatch):
    made = attachments.packed("scorer", "a callable", lambda: len)
    monkeypatch.setenv("VITRO_NO_CODE", "1")
    with pytest.raises(vitro.ConfigError, match="scorer: a callable is code, which"):
        scaling.attached(lambda sample: 0.0)

    class Dram(vitro.DramModel):
        def serve(self, now_ps, request):
            return now_ps

    with pytest.raises(vitro.ConfigError, match="models: a class is code, which"):
        vitro.run(SMALL, models=[Dram])
    with pytest.raises(vitro.ConfigError, match="scorer: a pickled object is code, which"):
        attachments.unpacked([made])
    with pytest.raises(vitro.ConfigError, match="--policy: evil.py:Rule is code, which"):
        (native.folder / "evil.py").write_text("raise SystemExit\n")
        monkeypatch.chdir(native.folder)
        files.load(["evil.py:Rule"])


def test_it_goes_with_a_task_to_another_machine(fake, monkeypatch):
    assert not remote.spec_of(Task("run", ("{}",)), Limits())["no_code"]
    monkeypatch.setenv("VITRO_NO_CODE", "1")
    assert remote.spec_of(Task("run", ("{}",)), Limits())["no_code"]


@pytest.mark.parametrize("key, value", [("job_script_prologue", '["touch mark"]'), ("python", "./evil.sh"),
                                        ("job_extra_directives", '["--wrap=evil"]'), ("queue", '"a\\ntouch mark"'),
                                        ("queue", '"a --wrap=evil"'), ("local_directory", '"/tmp; touch mark"'),
                                        ("death_timeout", '"60; touch mark"'), ("account", "$(evil)")])
def test_what_a_job_would_do_besides_is_refused(native, monkeypatch, key, value):
    path = native.folder / "slurm.yaml"
    path.write_text(f"cores: 1\nmemory: 1 GB\n{key}: {value}\n")
    assert key in slurm.settings(str(path))
    monkeypatch.setenv("VITRO_NO_CODE", "1")
    with pytest.raises(vitro.ConfigError, match=f"slurm.yaml:3: {key}: .* is code, which"):
        slurm.settings(str(path))


def test_a_job_s_plain_settings_are_no_code(native, monkeypatch):
    path = native.folder / "slurm.yaml"
    path.write_text("cores: 2\nmemory: 16 GB\nqueue: long,short\nwalltime: '02:00:00'\nlocal_directory: /tmp/x-1\naccount: a.b@c\n"
                    "patience: 1.5\n")
    monkeypatch.setenv("VITRO_NO_CODE", "1")
    assert slurm.settings(str(path))["queue"] == "long,short"


def test_modules_in_the_folder_of_a_study_are_not_imported(native, folder):
    """The process of a run is `python -m`, which would look there first."""
    (folder / "base64.py").write_text((folder / "evil.py").read_text())
    answer = native("run", "plain.yaml", "--json")
    assert answer.code == 0, answer.err
    assert not (folder / "mark").exists()
