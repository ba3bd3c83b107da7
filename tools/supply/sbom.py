"""Lists what vitro is built and tested with.

    python tools/supply/sbom.py OUT.cdx.json      a software bill of materials, CycloneDX 1.6
    python tools/supply/sbom.py --licences        the table of docs/reference/dependencies.md

Components are the pinned Python packages, with the hashes of python/requirements.lock, and the Debian packages that `./vitro` installs.
Versions and licences are those of the packages installed here. A bill holds no time and no serial number, so the same packages give the
same file.
"""
import argparse
import json
import re
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from lock import LOCK, REQUIREMENTS, ROOT, pins
from vitro.base import dependencies
from vitro.base.version import __version__
from vitro.base.whole_files import put


def python_components():
    hashes = {line.split("==")[0]: re.findall(r"sha256:(\w+)", line) for line in LOCK.read_text().splitlines() if "==" in line}
    pinned = pins(REQUIREMENTS.read_text())
    installed = {dependencies.key(package.name): package for package in dependencies.python_packages([name for name, _ in pinned])}
    for name, version in pinned:
        package = installed[dependencies.key(name)]
        files = [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in hashes[name]]
        yield component("pypi", name, version, package.licence, files)


def debian_components():
    for package in dependencies.debian_packages(dependencies.debian_names()):
        yield component("deb", package.name, package.version or None, package.licence, [])


def component(kind, name, version, licence, hashes):
    purl = PackageURL(kind, "debian" if kind == "deb" else None, name.lower() if kind == "pypi" else name, version)
    licences = [DisjunctiveLicense(name=licence)] if licence else []
    return Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl), licenses=licences, hashes=hashes)


def bill():
    """-> the CycloneDX text."""
    vitro = Component(name="vitro", version=__version__, type=ComponentType.APPLICATION, bom_ref="vitro",
                      licenses=[DisjunctiveLicense(id="Apache-2.0")])
    bom = Bom(components=[*python_components(), *debian_components()])
    bom.metadata.component = vitro
    bom.register_dependency(vitro, bom.components)
    found = json.loads(JsonV1Dot6(bom).output_as_string())
    del found["serialNumber"], found["metadata"]["timestamp"]
    return json.dumps(found, indent=1) + "\n"


def licences():
    """-> Markdown tables of names and licences. Versions are left out: they are in the lock file and in the bill."""
    def table(packages):
        return "\n".join(["| package | licence, as it states |", "|---|---|",
                          *(f"| {each.name} | {each.licence.replace('|', '/') or 'see its copyright file'} |" for each in packages)])
    python = dependencies.python_packages([name for name, _ in pins(REQUIREMENTS.read_text())])
    return (f"## Python packages\n\n{table(python)}\n\n## Debian packages\n\n"
            f"{table(dependencies.debian_packages(dependencies.debian_names()))}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("out", nargs="?", type=Path)
    wanted.add_argument("--licences", action="store_true")
    options = parser.parse_args()
    if options.licences:
        print(licences(), end="")
    else:
        put(options.out, bill())


if __name__ == "__main__":
    main()
