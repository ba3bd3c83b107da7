"""The lock file, the bill of materials, and the page of licences agree with what is pinned and installed."""
import json
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools/supply"))
import lock  # noqa: E402

PINS = lock.pins(lock.REQUIREMENTS.read_text())


def test_every_pinned_package_has_hashes_of_that_version():
    locked = lock.LOCK.read_text().splitlines()[1:]
    assert [tuple(line.split(" ")[0].split("==")) for line in locked] == PINS and len(PINS) > 100
    assert all(hashes and all(len(each) == len("--hash=sha256:") + 64 for each in hashes) for _, *hashes in map(str.split, locked))


def test_files_for_other_systems_are_left_out_and_a_source_stands_in_where_there_is_no_wheel():
    def file(name):
        return {"filename": name, "hashes": {"sha256": name}}
    names = ["a_b-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", "a_b-1.0-cp311-cp311-win_amd64.whl",
             "a_b-1.0-cp39-abi3-manylinux2014_aarch64.whl", "a_b-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
             "a_b-1.1-py3-none-any.whl", "a_b-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl", "a-b-1.0.tar.gz"]
    assert lock.hashes("a-b", "1.0", map(file, names)) == [names[0], names[2]]
    assert lock.hashes("a-b", "1.0", [file(names[1]), file(names[-1])]) == [names[-1]]
    with pytest.raises(SystemExit, match="no file of a-b 2.0"):
        lock.hashes("a-b", "2.0", map(file, names))


def test_a_file_with_another_hash_is_refused(tmp_path):
    wheel = tmp_path / "made_up-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was published")
    (tmp_path / "lock").write_text(lock.line("made_up", "1.0", ["0" * 64]))
    run = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--find-links", tmp_path, "--no-deps", "--require-hashes",
                          "--target", tmp_path / "out", "-r", tmp_path / "lock"], capture_output=True, text=True)
    assert run.returncode != 0 and "DO NOT MATCH THE HASHES" in run.stderr
    assert "--require-hashes" in (ROOT / "vitro").read_text()


def test_the_bill_of_materials_is_valid_whole_and_always_the_same(tmp_path):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from vitro.base import dependencies
    for name in "ab":
        subprocess.run([sys.executable, ROOT / "tools/supply/sbom.py", tmp_path / name], check=True)
    text = (tmp_path / "a").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == (tmp_path / "b").read_text()
    components = {each["name"]: each for each in json.loads(text)["components"]}
    assert set(components) == {name for name, _ in PINS} | set(dependencies.debian_names())
    assert components["numpy"]["version"] == dict(PINS)["numpy"] and components["numpy"]["hashes"]
    assert components["libsystemc-dev"]["purl"].startswith("pkg:deb/debian/libsystemc-dev@")


def test_the_page_lists_every_dependency():
    from vitro.base import dependencies
    page = (ROOT / "docs/reference/dependencies.md").read_text()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    python = {package.name for package in dependencies.python_packages([name for name, _ in PINS])}
    assert set(rows) - {"package"} == python | set(dependencies.debian_names())
