"""The annotations of python/vitro hold; `[tool.mypy]` in pyproject.toml says what has to have some."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def mypy(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", *arguments], cwd=folder, capture_output=True, text=True)


def test_annotations_hold():
    run = mypy(ROOT, "--config-file", "pyproject.toml")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_caller_sees_the_types(tmp_path):
    (tmp_path / "script.py").write_text("import vitro\nspeed: str = vitro.run('a.yaml', seed=1).metrics\n")
    run = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--ignore-missing-imports", "script.py"], cwd=tmp_path,
                         env={"MYPYPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    assert 'Unexpected keyword argument "seed"' in run.stdout and "Incompatible types in assignment" in run.stdout, run.stdout + run.stderr
