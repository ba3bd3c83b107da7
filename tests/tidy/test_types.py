"""The annotations of python/vitro hold; `[tool.mypy]` in pyproject.toml says what has to have some."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_annotations_hold_and_a_caller_sees_them(tmp_path):
    """The package and a script that uses it wrongly, in one run: mypy reads the package once."""
    script = tmp_path / "script.py"
    script.write_text("import vitro\nspeed: str = vitro.run('a.yaml', seed=1).metrics\n")
    run = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--config-file", "pyproject.toml", "python/vitro", script],
                         cwd=ROOT, capture_output=True, text=True)
    wrong = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert len(wrong) == 2 and all("script.py:2" in line for line in wrong), run.stdout + run.stderr
    assert 'Unexpected keyword argument "seed"' in run.stdout and "Incompatible types in assignment" in run.stdout
