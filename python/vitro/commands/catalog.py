"""`vitro list`: what there is to compose an experiment of."""

from ..base import checkout, native, terminal
from ..base.trees import load_yaml
from ..errors import ConfigError

PROVENANCES = ("spec", "measured", "derived", "scaled", "fitted", "assumed", "default")  # docs/reference/hw-models.md
KINDS = ("devices", "models", "policies", "weights", "ffns", "placements", "evictions", "kv_keeps", "drifts", "look_aheads",
         "expert_places", "kernels", "plugins")


def rows(kind):
    """-> [{"name", "description", ...}], by name."""
    if kind not in KINDS:
        raise ConfigError(f'list: there is no "{kind}" (expected {", ".join(KINDS)})')
    if kind == "models":
        return _models(checkout.root() / "configs" / "models")
    try:
        folder = str(checkout.root())
    except ConfigError:
        if kind == "devices":
            raise
        folder = ""  # what is compiled in, and plug-ins that the user names, need no checkout
    return native.call("list", kind, folder)


def hardware_table(devices):
    """-> (columns, cells): each device's memory, and how many it has of each processor."""
    cells = [(row["name"], f"{row['dram_capacity_bytes'] / 1e9:g} GB",
              ", ".join(f"{count} {name}" for name, count in row["processors"].items())) for row in devices if "processors" in row]
    return ["name", ">memory", "processors"], cells


def provenance_table(devices):
    """-> (columns, cells): how many numbers of each device are of which kind. A default counts as assumed in results."""
    kinds = [kind for kind in PROVENANCES if any(kind in row.get("parameters", {}) for row in devices)]
    cells = []
    for row in devices:
        counts = row.get("parameters")
        if counts:
            guesses = counts.get("assumed", 0) + counts.get("default", 0)
            total = sum(counts.values())
            cells.append((row["name"], str(total), *(str(counts.get(kind, 0)) for kind in kinds), f"{guesses / total:.0%}"))
    return ["name", ">numbers", *(f">{kind}" for kind in kinds), ">assumed or default"], cells


def _models(folder):
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".yaml":
            tree = load_yaml(path)
            description = tree.get("description", "") if isinstance(tree, dict) else ""
            found.append({"name": path.stem, "description": description, "path": str(path)})
        elif path.suffix == ".gguf":
            found.append({"name": path.stem, "description": f"GGUF file with weights, {terminal.size(path.stat().st_size)}",
                          "path": str(path)})
    return found
