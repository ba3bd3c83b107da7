"""Writes docs/notebooks/*.ipynb from the texts beside them (jupytext, percent format), without outputs: equal texts give equal files.

    python tools/notebooks.py            writes those that differ
    python tools/notebooks.py --check    exit code 1 if one differs, or belongs to no text
"""
import argparse
import sys
from pathlib import Path

import jupytext
import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"


def notebook_of(text: Path) -> str:
    """What the .ipynb beside a text has to hold."""
    notebook = jupytext.read(text)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{text.stem}-{number:02d}".replace("_", "-")  # jupytext draws them by chance
    notebook.metadata = {"jupytext": {"formats": "ipynb,py:percent"}, "kernelspec": notebook.metadata["kernelspec"],
                         "language_info": {"name": "python"}}
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4) + "\n"


def stale(folder: Path) -> dict[Path, str | None]:
    """-> {file that differs: what it has to hold, or None where no text belongs to it}"""
    wanted = {text.with_suffix(".ipynb"): notebook_of(text) for text in sorted(folder.glob("*.py"))}
    found: dict[Path, str | None] = {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}
    return found | {path: None for path in folder.glob("*.ipynb") if path not in wanted}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if something differs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of texts and notebooks")
    options = parser.parse_args(arguments)
    differing = stale(options.folder)
    for path, text in differing.items():
        print(f"{path.name}: {'belongs to no text' if text is None else 'is not what its text says'}")
        if not options.check and text is not None:
            path.write_text(text)
    return 1 if differing and (options.check or None in differing.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
