"""`import vitro`."""
import subprocess
import sys

import pytest
import vitro
from conftest import EXPERIMENT
from vitro.base import process


def test_path_text_and_dict_are_the_same_experiment(fake):
    tree = {"experiment": "small", "machine": "sim", "engine": {"policy": "mmap"},
            "workload": {"prompt": "Once upon a time", "output_tokens": 6}}
    results = [vitro.run(source) for source in (fake.write(), EXPERIMENT, tree)]
    assert len({result["event_hash"] for result in results}) == 1


def test_repeated_runs_in_one_process_are_equal(fake):
    first, second = (vitro.run(EXPERIMENT) for _ in range(2))
    differing = {key for key in first if first[key] != second[key]}
    assert differing <= {"wall_s"}


def test_overrides_as_dict_and_as_list(fake):
    values = [vitro.run(EXPERIMENT, overrides=overrides)["experiment_resolved"]["workload"]["output_tokens"]
              for overrides in ({"workload.output_tokens": 3}, ["workload.output_tokens=3"])]
    assert values == [3, 3]


def test_result_is_an_immutable_mapping(fake):
    result = vitro.run(EXPERIMENT)
    assert len(result.tokens) == 6
    assert result.metric("token_latency_ms.p99") > 0
    assert result.metric("no.such") is None
    assert dict(result)["schema"] == "vitro.result/1"
    with pytest.raises(AttributeError):
        result.data = {}


def test_budget_in_bytes(fake):
    assert vitro.run(EXPERIMENT, overrides={"memory.budget": "6 MiB"}).budget_bytes == 6 * 2 ** 20
    assert vitro.run(EXPERIMENT).budget_bytes is None


def test_progress_reaches_the_end(fake):
    seen = []
    vitro.run(EXPERIMENT, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 6) for i in range(1, 7)]


def test_errors_have_their_types(fake):
    with pytest.raises(vitro.ConfigError, match="unknown key"):
        vitro.run(EXPERIMENT, overrides={"typo": 1})
    for nothing in (3, None, ""):
        with pytest.raises(vitro.ConfigError, match="expected a path, a YAML text or a dict"):
            vitro.run(nothing)
    with pytest.raises(vitro.RunError, match="boom"):
        vitro.run(EXPERIMENT, overrides={"fake.fail": "boom"})
    with pytest.raises(vitro.RunError, match="SIGSEGV"):
        vitro.run(EXPERIMENT, overrides={"fake.crash": True})
    vitro.run(EXPERIMENT)  # and the next run is none the worse


def test_missing_extension_module_is_one_message(fake, monkeypatch):
    monkeypatch.setenv("VITRO_NATIVE_MODULE", "no_such_module")
    with pytest.raises(vitro.RunError, match="run ./vitro"):
        vitro.run(EXPERIMENT)


def test_script_without_main_guard(fake, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import vitro\nprint([vitro.run({EXPERIMENT!r}).tokens for _ in range(2)])\n")
    run = subprocess.run([sys.executable, script], env=fake.env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.stdout == "[[3, 10, 17, 24, 31, 38], [3, 10, 17, 24, 31, 38]]\n"


def test_malloc_is_tuned_unless_the_caller_did_so(tmp_path, monkeypatch):
    errors = "class ConfigError(Exception): pass\nclass RunError(Exception): pass\n"
    (tmp_path / "asked.py").write_text(f"import os\n{errors}def tunables(): return os.environ['GLIBC_TUNABLES']\n")
    monkeypatch.setenv("VITRO_NATIVE_MODULE", "asked")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert "glibc.malloc.hugetlb=1" in process.call("tunables")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    assert process.call("tunables") == "glibc.malloc.arena_max=1"


def test_import_is_light():
    heavy = "import sys, vitro; print([m for m in ('pandas', 'matplotlib', 'numpy', 'typer') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True).stdout == "[]\n"
