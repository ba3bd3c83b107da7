"""What `vitro --version --verbose` prints: versions of all that may change a result or a build."""
import platform

from ..base import dependencies, fingerprints
from ..base.version import __version__


def described() -> str:
    """One line each: vitro with its revision, the extension module, Python, kernel; then Python and Debian packages."""
    revision, changed = fingerprints.revision()
    at = f", revision {revision[:12]}{' with changes' if changed else ''}" if revision else ""
    host = fingerprints.host()
    lines = [f"vitro {__version__}{at}",
             f"engine: {fingerprints.engine_file()}, SHA-256 {fingerprints.engine()[:16]}",
             f"Python {platform.python_version()}, Linux {host['kernel']}, {host['cpu']}",
             "Python packages:", *_lines(dependencies.python_packages(dependencies.own_requirements()))]
    if names := dependencies.debian_names():
        lines += ["Debian packages:", *_lines(dependencies.debian_packages(names))]
    return "\n".join(lines)


def _lines(packages):
    return [f"  {package.name} {package.version or 'not installed'}" for package in packages]
