"""`vitro list`: what there is to compose an experiment of."""
from pathlib import Path

from . import _native, terminal
from .errors import ConfigError

KINDS = ("devices", "models", "policies", "kernels", "plugins")


def root():
    """The folder that holds configs/ and experiments/: the checkout, or the working directory."""
    for folder in (Path(__file__).parents[2], Path.cwd()):
        if (folder / "configs").is_dir() or (folder / "experiments").is_dir():
            return folder
    raise ConfigError("neither configs/ nor experiments/ is near (run this from a checkout of vitro)")


def rows(kind):
    """-> [{"name", "description", ...}], by name."""
    if kind not in KINDS:
        raise ConfigError(f'list: there is no "{kind}" (expected {", ".join(KINDS)})')
    if kind == "models":
        return _models(root() / "configs" / "models")
    try:
        folder = str(root())
    except ConfigError:
        if kind == "devices":
            raise
        folder = ""  # what is compiled in, and plug-ins that the user names, need no checkout
    return _native.call("list", kind, folder)


def _models(folder):
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".yaml":
            import yaml
            tree = yaml.safe_load(path.read_text())
            description = tree.get("description", "") if isinstance(tree, dict) else ""
            found.append({"name": path.stem, "description": description, "path": str(path)})
        elif path.suffix == ".gguf":
            found.append({"name": path.stem, "description": f"GGUF file with weights, {terminal.size(path.stat().st_size)}",
                          "path": str(path)})
    return found
