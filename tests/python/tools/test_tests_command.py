"""tests/run.py counts cases, and never takes a crash or an empty run for success."""
import importlib.util
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))  # of what it imports
SPEC = importlib.util.spec_from_file_location("vitro_test_run", ROOT / "tests" / "run.py")
run = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = run
SPEC.loader.exec_module(run)

GTEST = """<testsuites><testsuite>
<testcase name="a" classname="s" status="run"/>
<testcase name="b" classname="s" status="notrun"/>
<testcase name="c" classname="s" status="run"><skipped/></testcase>
<testcase name="d" classname="s" status="run"><failure message="no">no</failure></testcase>
</testsuite></testsuites>"""


def entry(status, failed=False):
    node = xml.Element("testcase", name="some_test", status=status)
    if failed:
        xml.SubElement(node, "failure", message="")
    xml.SubElement(node, "system-out").text = "last words"
    return node


def counts(tally):
    return tally.passed, tally.failed, tally.skipped


def test_gtest_cases_are_counted_one_by_one(tmp_path):
    (tmp_path / "cases.xml").write_text(GTEST)
    assert counts(run.binary("release", entry("fail", True), tmp_path / "cases.xml")) == (1, 1, 2)


def test_a_crash_without_a_report_fails(tmp_path):
    tally = run.binary("asan", entry("fail", True), tmp_path / "none.xml")
    assert counts(tally) == (0, 1, 0)
    assert tally.failures == [("asan: some_test", "last words")]


def test_a_crash_after_the_report_fails(tmp_path):
    (tmp_path / "cases.xml").write_text('<testsuites><testcase name="a" classname="s" status="run"/></testsuites>')
    assert counts(run.binary("asan", entry("fail", True), tmp_path / "cases.xml")) == (1, 1, 0)


def test_what_could_not_start_fails(tmp_path):
    assert counts(run.binary("asan", entry("notrun"), tmp_path / "none.xml")) == (0, 1, 0)


def test_another_program_counts_as_one(tmp_path):
    assert counts(run.binary("release", entry("run"), tmp_path / "none.xml")) == (1, 0, 0)


def test_pytest_errors_are_failures(tmp_path):
    (tmp_path / "p.xml").write_text('<testsuites><testcase name="a" classname="m"><error message="x">x</error></testcase></testsuites>')
    assert counts(run.junit(tmp_path / "p.xml", "pytest")) == (0, 1, 0)


def stages_of(monkeypatch, tmp_path, *args):
    """-> the stages that a command line runs, of which each counts one test."""
    ran = []
    for name in ("ctest", "sanitizer"):
        monkeypatch.setattr(run, name, lambda preset, wanted=None, every=True: ran.append(preset if every else f"few of {preset}")
                            or run.Tally(passed=1))
    monkeypatch.setattr(run, "built_for_smoke", lambda: {preset: ([], None) for preset in run.SMOKE})
    monkeypatch.setattr(run, "pytest", lambda every: ran.append("every pytest" if every else "pytest") or run.Tally(passed=1))
    monkeypatch.setattr(run, "fuzz", lambda: ran.append("fuzz") or run.Tally(passed=1))
    monkeypatch.setattr(run, "bill_of_materials", run.Tally)
    monkeypatch.setattr(run, "soak", lambda hours, tally: ran.append(f"soak of {hours:g} h") or tally.add(run.Tally(passed=1)))
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py", *args])
    assert run.main() == 0
    return ran


def test_stages_without_and_with_all(monkeypatch, tmp_path):
    assert stages_of(monkeypatch, tmp_path) == ["few of release", "pytest", "asan", "tsan"]
    assert stages_of(monkeypatch, tmp_path, "--all") == ["release", "aarch64", "every pytest", "asan", "tsan", "fuzz"]
    assert stages_of(monkeypatch, tmp_path, "--all", "--only", "pytest") == ["every pytest"]
    assert stages_of(monkeypatch, tmp_path, "--only", "fuzz,smoke") == ["asan", "tsan", "fuzz"]
    assert stages_of(monkeypatch, tmp_path, "--soak", "1.5") == ["soak of 1.5 h"]


def all_lists():
    return "".join(path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt"))


def test_the_emulated_processor_runs_tests_that_there_are():
    names = re.search(r"\((.*)\)_test", run.AARCH64.pattern)[1].split("|")
    for name in names:
        assert f"vitro_test({name}_test" in all_lists(), name
    assert run.AARCH64.search("host_test.1") and run.AARCH64.search("vitro-device") and "NAME vitro-device" in all_lists()


def test_the_smoke_run_is_of_tests_that_there_are():
    lists = all_lists()
    smoke = re.search(r"set\(VITRO_SMOKE (.*)\)", lists)[1].split()
    assert smoke == ["base_test", "model_test", "traces_test", "host_test", "machine_test"], "these are not built for the release as well"
    for name in ("base_test", "model_test", "traces_test"):
        assert run.SMOKE["asan"].search(name) and f"vitro_test({name}" in lists
    for name in ("host_test", "machine_test"):
        assert run.SMOKE["tsan"].search(name) and run.TSAN.search(name) and f"vitro_test({name}" in lists


def test_the_smoke_run_is_built_once_on_idle_cores(monkeypatch):
    asked = []
    monkeypatch.setattr(run, "built", lambda preset, log, wanted, idle: asked.append((preset, wanted, idle)) or (["a_test"], None))
    run.built_for_smoke.cache_clear()
    both = [run.built_for_smoke(), run.built_for_smoke()]
    run.built_for_smoke.cache_clear()
    assert both == 2 * [{"asan": (["a_test"], None), "tsan": (["a_test"], None)}]
    assert asked == [(preset, wanted, True) for preset, wanted in run.SMOKE.items()]


def test_a_smoke_run_that_does_not_build_fails(monkeypatch):
    monkeypatch.setattr(run, "ctest", lambda preset, names: run.Tally(passed=len(names)))
    tally = run.smoke({"asan": ([], run.failure("asan: does not build", "why")), "tsan": (["a", "b"], None)})
    assert counts(tally) == (2, 1, 0)


@pytest.mark.parametrize("stages", ["dragons", "release,dragons"])
def test_unknown_stage_is_refused(stages):
    answer = subprocess.run([sys.executable, ROOT / "tests" / "run.py", "--only", stages], capture_output=True, text=True)
    assert answer.returncode == 2 and "dragons" in answer.stderr
