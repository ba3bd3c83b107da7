"""Notebooks in docs/notebooks: the .ipynb is what its text says, and every cell runs, in a folder without a checkout's files."""
import importlib.util
import os

import nbclient
import nbformat
import pytest
from conftest import ROOT

FOLDER = ROOT / "docs" / "notebooks"
SHORT = {"first_hour"}  # the others take up to a minute each


@pytest.fixture(scope="module")
def tool():
    pytest.importorskip("jupytext", reason="jupytext makes notebooks of their texts")
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools/notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notebooks_are_what_their_texts_say(tool):
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(path.stem for path in FOLDER.glob("*.py"))
    assert not tool.stale(FOLDER), "run `python tools/notebooks.py`"


def test_a_notebook_that_differs_or_has_no_text_is_noticed_and_the_first_is_renewed(tool, tmp_path, capsys):
    text = tmp_path / "small.py"
    text.write_bytes((FOLDER / "first_hour.py").read_bytes())
    assert tool.main(["--folder", str(tmp_path), "--check"]) == 1 and not text.with_suffix(".ipynb").exists()
    assert tool.main(["--folder", str(tmp_path)]) == 0 and tool.main(["--folder", str(tmp_path), "--check"]) == 0
    text.write_text(text.read_text() + "\n# %%\n1 + 1\n")
    assert tool.main(["--folder", str(tmp_path), "--check"]) == 1
    text.rename(tmp_path / "other.py")
    assert tool.main(["--folder", str(tmp_path)]) == 1 and "small.ipynb: belongs to no text" in capsys.readouterr().out


@pytest.mark.parametrize("name", [pytest.param(path.stem, marks=() if path.stem in SHORT else pytest.mark.all)
                                  for path in sorted(FOLDER.glob("*.ipynb"))])
def test_every_cell_runs(native, tmp_path, monkeypatch, name):
    for key, value in native.env.items():
        monkeypatch.setenv(key, value)
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    monkeypatch.setenv("IPYTHONDIR", os.fspath(tmp_path / "ipython"))
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    drawn = sum("plot." in cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert drawn and len(pictures) == drawn
