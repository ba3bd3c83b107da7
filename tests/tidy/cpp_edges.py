"""Which C++ folder may include headers of which other one: allowed_includes.txt lists all of it.

`python tests/tidy/cpp_edges.py` prints what there is.

Every folder is a node of its own, whatever folder it lies in. Tests may include everything, so they are not listed.
"""
import os.path
import re
from pathlib import Path

from rules import CPP, ROOT, files, includes


def allowed(text=None):
    """-> {folder: the folders that it may include}, of the lines `folder: folder ...`."""
    lines = (text if text is not None else (Path(__file__).parent / "allowed_includes.txt").read_text()).splitlines()
    rows = [line.partition(":") for line in lines if line and not line.startswith("#")]
    return {folder: set(others.split()) for folder, _, others in rows}


def sources():
    return {path: (ROOT / path).read_text(errors="replace") for path in files() if path.endswith(CPP) and not path.startswith("tests/")}


def edges(texts):
    """-> [(file, line, its folder, the folder of what it includes)] of every include that leads from one folder to another."""
    found = []
    for path, text in texts.items():
        folder = os.path.dirname(path)
        for line, name in includes(text):
            if name not in texts:
                name = os.path.normpath(os.path.join(folder, name))  # "module.hpp", beside the file
            if name in texts and os.path.dirname(name) != folder:
                found.append((path, line, folder, os.path.dirname(name)))
    return found


def strangers(found, listed):
    return [f"{path}:{line}: {folder} may not include {other} (tests/tidy/allowed_includes.txt)" for path, line, folder, other in found
            if other not in listed.get(folder, ())]


def circle(listed):
    """-> the folders of one circle, in order; empty where there is none."""
    done = set()

    def visit(folder, path):
        if folder in path:
            return [*path[path.index(folder):], folder]
        if folder not in done:
            for other in sorted(listed.get(folder, ())):
                if found := visit(other, [*path, folder]):
                    return found
            done.add(folder)
        return []

    return next((found for folder in sorted(listed) if (found := visit(folder, []))), [])


def used(found):
    """-> {folder: the folders that it includes}, with the folders that only others include."""
    there = {}
    for _, _, folder, other in found:
        there.setdefault(folder, set()).add(other)
        there.setdefault(other, set())
    return there


if __name__ == "__main__":
    for folder, others in sorted(used(edges(sources())).items()):
        print(f"{folder}: {' '.join(sorted(others))}".rstrip())
