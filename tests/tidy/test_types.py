"""The annotations of python/vitro hold; `[tool.mypy]` in pyproject.toml says what has to have some."""
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import vitro

ROOT = Path(__file__).resolve().parents[2]


def test_all_that_is_offered_is_annotated_and_described():
    missing = []
    for name in vitro.__all__:
        offered = getattr(vitro, name)
        members = vars(offered) if inspect.isclass(offered) else {}
        functions = {name: offered} if inspect.isfunction(offered) else {
            f"{name}.{key}": getattr(offered, key) for key, value in members.items() if inspect.isfunction(value) and not key.startswith("__")}
        if not inspect.getdoc(offered):
            missing.append(f"{name}: no docstring")
        for key, function in functions.items():
            hints = [one.annotation for one in inspect.signature(function).parameters.values() if one.name != "self"]
            if inspect.Parameter.empty in (*hints, inspect.signature(function).return_annotation):
                missing.append(f"{key}: not annotated")
            if inspect.isfunction(offered) and not function.__doc__:
                missing.append(f"{key}: no docstring")
    assert not missing and (Path(vitro.__file__).parent / "py.typed").is_file()


@pytest.mark.all
def test_annotations_hold_and_a_caller_sees_them(tmp_path):
    """The package and a script that uses it wrongly, in one run: mypy reads the package once."""
    script = tmp_path / "script.py"
    script.write_text("import vitro\nspeed: str = vitro.run('a.yaml', seed=1).metrics\n")
    run = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--config-file", "pyproject.toml", "python/vitro", script],
                         cwd=ROOT, capture_output=True, text=True)
    wrong = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert len(wrong) == 2 and all("script.py:2" in line for line in wrong), run.stdout + run.stderr
    assert 'Unexpected keyword argument "seed"' in run.stdout and "Incompatible types in assignment" in run.stdout
