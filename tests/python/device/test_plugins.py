"""Plug-ins from the command line: where paths start, and one message with exit code 2 for each that can not be used.

What a sound one does is in test_adding_a_device.py, and the loader's own laws are in tests/hw_models/plugin_loader_test.cpp.
"""
import re
import subprocess

import pytest
import vitro
from conftest import ROOT
from vitro.base import checkout
from vitro.commands import catalog

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
DEVICE = """
name: phone
plugins: [{plugin}]
dram: {{bandwidth: 51 GB/s, capacity: 12 GB, available: 9 GB}}
"""
OTHER_ABI = "const struct { unsigned abi; } vitro_plugin = {999};\n"
NO_PLUGIN = "int nothing_of_vitro;\n"
UNDEFINED = "extern int vitro_no_such(void); int (*used)(void) = vitro_no_such;\n"


def shared_object(path, source):
    path.with_suffix(".c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, path.with_suffix(".c")], check=True)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder with a device file and plug-ins in parts/, where no command runs."""
    parts = tmp_path / "far" / "parts"
    parts.mkdir(parents=True)
    shared_object(parts / "other.so", OTHER_ABI)
    shared_object(parts / "none.so", NO_PLUGIN)
    shared_object(parts / "undefined.so", UNDEFINED)
    (parts / "text.so").write_text("no shared object\n")
    return parts.parent


FAULTS = {
    "parts/other.so": ("was built for plug-in ABI 999, and this vitro has plug-in ABI ",),
    "parts/none.so": ("is a shared object, but not a plug-in", "VITRO_PLUGIN"),
    "parts/text.so": ("does not load: ", "file too short"),
    "parts/undefined.so": ("does not load: ", "undefined symbol: vitro_no_such"),
    "parts/missing.so": ("is not a file (looked for ", "far/parts/missing.so; paths start at the file that names them)"),
}


@pytest.mark.parametrize("plugin", FAULTS)
def test_a_faulty_one_in_a_device_file_is_one_message(native, folder, plugin):
    (folder / "phone.yaml").write_text(DEVICE.format(plugin=plugin))
    answer = native("run", QUICKSTART, "--set", f"device={folder / 'phone.yaml'}")
    assert answer.code == 2
    assert answer.err.startswith("vitro: ") and answer.err.count("\n") == 1, answer.err
    assert f'{folder / "phone.yaml"}:3: plugins: "' in answer.err
    assert all(part in answer.err for part in FAULTS[plugin]), answer.err


def test_one_of_the_experiment_starts_at_the_experiment(native, folder):
    text = QUICKSTART.read_text().replace("../", f"{ROOT}/") + "plugins: [parts/other.so]\n"
    path = folder / "e.yaml"
    path.write_text(text)
    answer = native("run", path)
    assert answer.code == 2
    assert f'{path}:{text.count(chr(10))}: plugins: "{folder}/parts/other.so" was built for plug-in ABI 999' in answer.err


def test_the_version_of_the_contracts_covers_every_header_of_a_plugin():
    listed = re.search(r"set\(VITRO_CONTRACT_HEADERS\s+(.*?)\)", (ROOT / "cmake" / "vitro-config.cmake").read_text(), re.DOTALL)
    reached, waiting = set(), ["hw_models/plugin.hpp"]
    while waiting:
        header = waiting.pop()
        if header not in reached:
            reached.add(header)
            waiting += re.findall(r'^#include "(.+)"', (ROOT / header).read_text(), re.MULTILINE)
    assert sorted(listed.group(1).split()) == sorted(reached)


def test_plugins_without_a_device_are_refused(native, folder):
    answer = native("run", native.write("experiment: e\nmachine: host\nplugins: [a.so]\n"))
    assert answer.code == 2 and "plugins: has no device to serve" in answer.err


def test_one_on_the_command_line_starts_where_the_user_is(native, folder):
    native.folder = folder
    answer = native("run", QUICKSTART, "--plugin", "parts/other.so")
    assert answer.code == 2
    assert answer.err == (f'vitro: --plugin or VITRO_PLUGINS: "{folder}/parts/other.so" was built for plug-in ABI 999, and this vitro '
                          "has plug-in ABI 1 (expected a plug-in compiled with this vitro's headers)\n")


def test_one_of_the_environment_reaches_the_run(native, folder):
    native.folder = folder
    answer = native("run", QUICKSTART, env={"VITRO_PLUGINS": "parts/none.so"})
    assert answer.code == 2 and '--plugin or VITRO_PLUGINS: "parts/none.so" is a shared object' in answer.err


def test_the_list_says_what_is_wrong_and_goes_on(native, folder):
    other, none = folder / "parts" / "other.so", folder / "parts" / "none.so"
    rows = native("list", "plugins", "--plugin", other, "--plugin", none, "--json").json["rows"]
    assert [row["name"] for row in rows] == ["other", "none"]
    assert "plug-in ABI 999" in rows[0]["description"] and "not a plug-in" in rows[1]["description"]


def test_a_saved_device_keeps_its_plugins(native, folder, tmp_path):
    (folder / "phone.yaml").write_text(DEVICE.format(plugin="./parts/other.so"))
    vitro.Device(folder / "phone.yaml").save(tmp_path / "copy.yaml")
    assert vitro.Device(tmp_path / "copy.yaml").tree["plugins"] == [str(folder / "parts" / "other.so")]


@pytest.mark.parametrize("block", ["dram", "cpu", "ufs"])
def test_a_device_without_a_block_it_needs(native, block):
    device = vitro.Device(ROOT / "configs" / "devices" / "oneplus12.yaml").tree
    del device[block]
    vitro.Device(device).save(native.folder / "phone.yaml")
    answer = native("run", QUICKSTART, "--set", f"device={native.folder / 'phone.yaml'}")
    assert answer.code == 2 and f"phone.yaml:1: {block}: is missing" in answer.err, answer.err


def test_a_model_of_something_else_is_no_core(native):
    answer = native("run", QUICKSTART, "--set", "device.cpu.model=hexagon")
    assert answer.code == 2 and 'cpu.model: "hexagon.flow" is not a model of a CPU core' in answer.err, answer.err


def test_an_unknown_model_is_answered_with_the_known_ones(native):
    answer = native("run", QUICKSTART, "--set", "device.dram.model=ddr9")
    assert answer.code == 2
    assert 'dram.model: there is no model "ddr9.flow" (expected one of: lpddr.' in answer.err


def test_what_is_compiled_in_is_listed_without_a_checkout(native, monkeypatch):
    def nowhere():
        raise vitro.ConfigError("no checkout")
    monkeypatch.setattr(checkout, "root", nowhere)
    assert catalog.rows("kernels") and catalog.rows("plugins") == []
    with pytest.raises(vitro.ConfigError, match="no checkout"):
        catalog.rows("devices")
