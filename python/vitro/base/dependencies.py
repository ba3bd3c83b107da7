"""What this installation depends on: Python packages, and the Debian packages that a checkout's `./vitro` installs."""
import importlib.metadata
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]

_SHORT = 60  # a longer "License" field is the licence's text


@dataclass(frozen=True)
class Package:
    name: str
    version: str   # "" where it is not installed
    licence: str   # as the package states it; "" where it states none that can be read by a program


def python_packages(names: list[str] | None = None) -> list[Package]:
    """The installed ones, of `names` or all, by name."""
    found: dict[str, Package] = {}
    for package in importlib.metadata.distributions():
        metadata = package.metadata  # read anew each time that it is asked for
        found.setdefault(key(metadata["Name"]), Package(metadata["Name"], metadata["Version"], _python_licence(metadata)))
    wanted = sorted(found) if names is None else sorted(map(key, names))
    return [found.get(name, Package(name, "", "")) for name in wanted]


def own_requirements() -> list[str]:
    """Names of the packages that vitro itself asks for, those of its extras among them."""
    try:
        stated = importlib.metadata.requires("vitro") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout
        project = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text())["project"]
        stated = sum(project["optional-dependencies"].values(), project["dependencies"])
    return sorted({key(re.split(r"[\s\[;<>=!~]", each, maxsplit=1)[0]) for each in stated})


def debian_names() -> list[str]:
    """-> names of the packages that a checkout's `./vitro` installs; [] for an installed package."""
    try:
        script = (_CHECKOUT / "vitro").read_text()
    except OSError:
        return []
    lists = re.findall(r"^\w*packages=\((.*?)\)", script, re.MULTILINE | re.DOTALL)
    return sorted({name for each in lists for name in re.sub(r"#.*", "", each).split()})


def debian_packages(names: list[str]) -> list[Package]:
    """With the versions that dpkg knows here."""
    try:
        said = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n", *names], capture_output=True,
                              text=True).stdout
    except OSError:
        said = ""
    versions = {name: version for status, name, version in (line.split("\t") for line in said.splitlines()) if status.startswith("ii")}
    return [Package(name, versions.get(name, ""), _debian_licence(name)) for name in names]


def key(name: str) -> str:
    """-> a package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _python_licence(metadata):
    if expression := metadata.get("License-Expression"):
        return expression
    classified = [each.rsplit(" :: ", 1)[-1] for each in metadata.get_all("Classifier") or [] if each.startswith("License ::")]
    stated = (metadata.get("License") or "").strip()
    if stated and len(stated) < _SHORT and "\n" not in stated and stated != "UNKNOWN":
        return stated
    return ", ".join(sorted(classified))


def _debian_licence(name):
    """Licences that a machine-readable copyright file names, each once."""
    try:
        text = Path(f"/usr/share/doc/{name}/copyright").read_text(errors="replace")
    except OSError:
        return ""
    named = {each.strip() for each in re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE)}
    return ", ".join(sorted(named))
