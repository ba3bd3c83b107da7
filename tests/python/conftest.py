"""Fixtures. `fake`: the command line with the stand-in for the extension module; `native`: with the real one."""
import ctypes
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forked
import pytest
import yaml

yaml.SafeLoader = yaml.CSafeLoader  # of tests' own safe_load(): a sixth of the time, and modules read files when they are collected

ROOT = Path(__file__).parents[2]
FAKES = Path(__file__).parent / "fakes"

EXPERIMENT = """
experiment: small
machine: sim
engine: {policy: mmap}
workload: {prompt: "Once upon a time", output_tokens: 6}
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        assert self.out, self.err
        return json.loads(self.out)


class Command:
    def __init__(self, env, folder):
        self.env, self.folder = env, folder

    def __call__(self, *args, stdin=b"", env=None):
        words = [arg if isinstance(arg, bytes) else str(arg) for arg in args]
        if not env:
            code, out, err = server(self.env, words[:1]).run(words, stdin, self.folder, self.env, timeout=300)
            return Answer(code, out.decode(), err.decode())
        run = subprocess.run([sys.executable, "-m", "vitro", *words], input=stdin, capture_output=True, cwd=self.folder,
                             env=self.env | env, timeout=300)
        return Answer(run.returncode, run.stdout.decode(), run.stderr.decode())

    def write(self, text=EXPERIMENT, name="exp.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path


def opencl_platforms():
    """-> how many drivers of OpenCL there are."""
    try:
        loader = ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint(0)
    return count.value if loader.clGetPlatformIDs(0, None, ctypes.byref(count)) == 0 else 0


_servers = {}  # by the part of an environment that differs between tests, and by what they have loaded
TABLES = {"sweep", "search", "sensitivity", "report", "tasks", "trace", "validate", "reproduce"}  # commands that make tables or pictures


def server(env, command):
    """The process that commands with this environment are forked from."""
    packages = ("pandas", "matplotlib.figure") if TABLES.intersection(command) else ()
    key = (env["PYTHONPATH"], env.get("VITRO_NATIVE_MODULE"), packages)
    if key not in _servers:
        _servers[key] = forked.Server(env, packages)
    return _servers[key]


# Files that take more than two minutes, the longest first, so that none is left to one process at the end.
LONG = ("tools/test_wheel.py", "composition/test_composition.py", "tools/test_hexagon_costs.py", "tools/test_notebooks.py",
        "composition/test_matrix_on_sim.py", "plan/test_planner.py", "composition/test_matrix_on_host.py", "torture/test_swarm.py",
        "model/test_gptq_pass.py", "tools/test_doc_blocks.py", "tools/test_kernel_costs.py", "model/test_quality.py",
        "study/test_store.py", "tools/test_measured_tables.py", "device/test_cross_fidelity.py", "torture/test_two_machines.py")


def pytest_collection_modifyitems(items):
    first = {Path(__file__).parent / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: first.get(item.path, len(LONG)))


def pytest_unconfigure():
    for one in _servers.values():
        one.close()


def environment(*folders, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VITRO_")}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "COLUMNS": "100"} | more


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setenv("VITRO_NATIVE_MODULE", "fake_vitro")
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.chdir(tmp_path)
    return Command(environment(ROOT / "python", FAKES, VITRO_NATIVE_MODULE="fake_vitro"), tmp_path)


@pytest.fixture(scope="session")
def has_native():
    """Skips what needs the extension module where there is none; a run of all tests fails there instead."""
    if not any((ROOT / "python" / "vitro").glob("_vitro*.so")):
        assert not os.environ.get("VITRO_ALL_BUILT"), "the extension module was not built"
        pytest.skip("the extension module is not built")
    return True


@pytest.fixture
def native(tmp_path, monkeypatch, has_native):
    monkeypatch.delenv("VITRO_NATIVE_MODULE", raising=False)
    return Command(environment(ROOT / "python"), tmp_path)
