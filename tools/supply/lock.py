"""Writes python/requirements.lock: each pinned package of python/requirements.txt with the SHA-256 of its files, as the package index
states them. `./vitro` installs by it, so a file that was changed after its release is refused.

    python tools/supply/lock.py [--index https://pypi.org/simple]

Listed are wheels that run on Linux (x86-64 and ARM64) with the Python of Debian 12 or 13, and the source where there is none.
"""
import argparse
import json
import re
import urllib.request
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS, LOCK = ROOT / "python/requirements.txt", ROOT / "python/requirements.lock"
PYTHONS = (11, 13)
HEADER = "# Made by tools/supply/lock.py from requirements.txt: pinned versions with the SHA-256 of their files.\n"


def pins(text):
    """-> (name, version) for each line `name==version`."""
    return re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", text, re.MULTILINE)


def runs_here(tags):
    """Whether one of a wheel's tags is for Linux and one of PYTHONS."""
    def fits(tag):
        platform = tag.platform == "any" or re.search(r"linux.*_(x86_64|aarch64)$", tag.platform) and "musl" not in tag.platform
        minor = re.fullmatch(r"cp3(\d+)", tag.interpreter)
        if minor is None:
            return platform and tag.interpreter in ("py3", "py2.py3")
        return platform and (tag.abi == "abi3" and int(minor[1]) <= max(PYTHONS) or int(minor[1]) in PYTHONS and not tag.abi.endswith("t"))
    return any(fits(tag) for tag in tags)


def hashes(name, version, files):
    """-> sorted SHA-256 of the files of one version. files: as the index lists them, {"filename": ..., "hashes": {"sha256": ...}}."""
    wheels, sources = [], []
    for file in files:
        try:
            found, of, _, tags = parse_wheel_filename(file["filename"])
        except InvalidWheelFilename:
            if file["filename"].lower().replace("-", "_") == f"{name}_{version}.tar.gz".lower().replace("-", "_"):
                sources.append(file["hashes"]["sha256"])
            continue
        if str(of) == version and found == canonicalize_name(name) and runs_here(tags):
            wheels.append(file["hashes"]["sha256"])
    if not (wheels or sources):
        raise SystemExit(f"lock.py: the index has no file of {name} {version} that runs here")
    return sorted(wheels or sources)


def line(name, version, found):
    return f"{name}=={version} " + " ".join(f"--hash=sha256:{digest}" for digest in found)


def listed(index, name):
    request = urllib.request.Request(f"{index}/{canonicalize_name(name)}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["files"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", default="https://pypi.org/simple")
    index = parser.parse_args().index
    lines = [line(name, version, hashes(name, version, listed(index, name))) for name, version in pins(REQUIREMENTS.read_text())]
    LOCK.write_text(HEADER + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
