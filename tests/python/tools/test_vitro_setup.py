"""The set-up script: what it installs, when it does nothing, and how it fails. Debian, CMake and ninja are stand-ins."""
import hashlib
import os
import stat
import subprocess
import sys

import pytest
from conftest import ROOT

BASH_TOOLS = ["bash", "readlink", "dirname", "sha256sum", "sed", "tr", "tail", "grep", "cat", "mkdir", "sleep", "env", "flock", "chmod"]
NINJA = """if [ "$3" = -n ]; then [ -e built ] && echo 'ninja: no work to do.' || echo '[1/1] compile'; exit 0; fi
[ -e broken ] && { echo 'a.cpp:1: error: expected a semicolon'; exit 1; }
echo '[1/1] compile'; touch built"""


class Checkout:
    """A copy of the script in a folder of its own, where every program that it calls writes down how it was called."""

    def __init__(self, folder):
        self.root, self.bin, self.calls = folder / "checkout", folder / "bin", folder / "calls"
        (self.root / "python").mkdir(parents=True)
        self.bin.mkdir()
        (self.root / "vitro").write_bytes((ROOT / "vitro").read_bytes())
        (self.root / "vitro").chmod(0o755)
        (self.root / "CMakePresets.json").write_text("{}")
        (self.root / "python/requirements.lock").write_text("")
        venv = self.root / ".venv"
        (venv / "bin").mkdir(parents=True)
        (venv / ".stamp").write_text(f"{self.root} {hashlib.sha256(b'').hexdigest()}  -\n")
        self.stub(venv / "bin/python", "echo cmakedir")
        self.stub(venv / "bin/vitro", 'echo "ran in $PWD:" "$@"')
        for tool in [*BASH_TOOLS, "touch"]:
            (self.bin / tool).symlink_to(f"/usr/bin/{tool}")
        self.installed()
        self.program("id", "echo 0")
        self.program("apt-get", 'case "$*" in *update) ;; *) [ -e no-network ] && exit 100 ;; esac; exit 0')
        self.program("cmake", f'mkdir -p "{self.root}/build/release"')
        self.program("ninja", f'cd "{self.root}"; ' + NINJA)

    def stub(self, path, body):
        path.write_text(f'#!/usr/bin/bash\necho "{path.name} $*" >>"{self.calls}"\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def program(self, name, body):
        self.stub(self.bin / name, body)

    def installed(self, *missing):
        """Makes dpkg-query say that everything is there but `missing`."""
        tests = " ".join(f"[ $p = {name} ] ||" for name in missing)
        self.stub(self.bin / "dpkg-query", f'for p in "${{@:4}}"; do {tests} echo "ii $p"; done')

    def run(self, *args):
        self.calls.unlink(missing_ok=True)
        run = subprocess.run([self.root / "vitro", *args], cwd=self.root.parent, capture_output=True, text=True, timeout=60,
                             env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")})
        self.called = self.calls.read_text().splitlines() if self.calls.exists() else []
        return run

    def calls_of(self, name):
        return [line for line in self.called if line.split()[0] == name]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_hands_over_arguments_and_the_callers_folder(checkout, tmp_path):
    answer = checkout.run("run", "a b.yaml", "--json")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"ran in {tmp_path}: run a b.yaml --json\n"


def test_installs_only_what_is_missing_without_asking(checkout):
    checkout.installed("libsystemc-dev", "ccache")
    assert checkout.run("run").returncode == 0
    update, install = checkout.calls_of("apt-get")
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends ccache libsystemc-dev")


def test_does_nothing_and_says_nothing_the_second_time(checkout):
    first = checkout.run("list", "devices")
    assert "Build" in first.stderr
    second = checkout.run("list", "devices")
    assert second.stderr == ""
    assert not checkout.calls_of("apt-get") and not checkout.calls_of("cmake")


def test_test_packages_are_installed_for_tests_alone(checkout):
    checkout.installed("libgtest-dev")
    checkout.run("run")
    assert not checkout.calls_of("apt-get")
    checkout.run("test", "--only", "pytest")
    assert checkout.calls_of("apt-get")[1].endswith(" libgtest-dev")
    assert checkout.called[-1] == f"python {checkout.root}/tests/run.py --only pytest"


def test_other_toolchains_are_installed_for_the_stages_that_need_them(checkout):
    checkout.installed("g++-aarch64-linux-gnu")
    checkout.run("test")
    assert not checkout.calls_of("apt-get")
    checkout.run("test", "--all")
    assert checkout.calls_of("apt-get")[1].endswith(" g++-aarch64-linux-gnu")


def test_a_build_for_tests_is_not_narrowed_by_a_run(checkout):
    checkout.run("run")
    assert "-DVITRO_TESTS=OFF" in checkout.calls_of("cmake")[0]
    checkout.run("test")
    assert "-DVITRO_TESTS=ON" in checkout.calls_of("cmake")[0]
    checkout.run("run")
    assert not checkout.calls_of("cmake")


def test_without_root_sudo_is_used(checkout):
    checkout.installed("ccache")
    checkout.program("id", "echo 1000")
    checkout.program("sudo", 'exec "$@"')
    assert checkout.run("run").returncode == 0
    assert len(checkout.calls_of("sudo")) == 2


def test_without_root_and_sudo_the_packages_are_named(checkout):
    checkout.installed("ccache")
    checkout.program("id", "echo 1000")
    answer = checkout.run("run")
    assert answer.returncode == 1
    assert "neither root nor sudo: ccache" in answer.stderr


def test_a_broken_build_shows_the_compilers_message(checkout):
    (checkout.root / "broken").touch()
    answer = checkout.run("run")
    assert answer.returncode == 1
    assert "expected a semicolon" in answer.stderr and "setup.log" in answer.stderr
    assert answer.stdout == ""


def test_a_failed_installation_stops(checkout):
    checkout.installed("ccache")
    (checkout.root.parent / "no-network").touch()
    answer = checkout.run("run")
    assert answer.returncode == 1
    assert "Debian packages (1) failed" in answer.stderr
    assert not checkout.calls_of("ninja")


def test_what_starts_the_program_may_be_imported_by_processes_that_it_starts(tmp_path):
    """A process that is spawned imports what started it: without a guard it would start the program again."""
    script = (ROOT / "vitro").read_text()
    begin = script.index("finish_venv() {")
    package = tmp_path / "python/vitro"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text("""import multiprocessing, os, sys
def main():
    print("began", *sys.argv[1:], flush=True)
    started = multiprocessing.get_context("spawn").Process(target=os._exit, args=(7,))
    started.start()
    started.join()
    print("ended with", started.exitcode)
    return 3
""")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python"
    python.write_text(f'#!/usr/bin/bash\n[[ $1 == -c ]] && {{ echo "{tmp_path}"; exit; }}\n'
                      f'PYTHONPATH={tmp_path}/python exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    written = f"set -eu; root={tmp_path} venv={tmp_path}/.venv state={tmp_path} venv_stamp=stamp; true & packages_pid=$!\n"
    subprocess.run(["bash", "-c", written + script[begin:script.index("\n}\n", begin)] + "\n}\nfinish_venv"], check=True, timeout=60,
                   capture_output=True)
    run = subprocess.run([tmp_path / ".venv/bin/vitro", "run", "a b"], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (3, "began run a b\nended with 7\n"), run.stderr
    assert (tmp_path / "vitro.pth").read_text() == f"{tmp_path}/python\n" and (tmp_path / ".venv/.stamp").read_text() == "stamp\n"


def test_an_environment_that_is_linked_from_another_checkout_is_not_emptied(checkout, tmp_path):
    theirs = (checkout.root / ".venv").rename(tmp_path / "theirs")
    (theirs / ".stamp").write_text("another checkout")
    (checkout.root / ".venv").symlink_to(theirs)
    answer = checkout.run("run")
    assert answer.returncode == 1 and f".venv is a link to {theirs}" in answer.stderr
    assert (theirs / "bin/vitro").is_file() and (theirs / ".stamp").read_text() == "another checkout"
