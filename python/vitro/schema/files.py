"""The schemas by name, as texts and files."""
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.whole_files import in_place
from ..errors import ConfigError
from . import device, experiment, plan

_COLUMNS = 140

MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "experiment": experiment.experiment, "device": device.device, "plan": plan.plan,
    **{name: lambda name=name: experiment.part_file(name) for name in ("engine", "model", "workload")},  # type: ignore[misc]
    **{name: lambda name=name: device.part_file(name) for name in device.PARTS},  # type: ignore[misc]
}


def schema(name: str) -> dict[str, Any]:
    """JSON Schema (draft 7) by its name. Raises ConfigError for a name that is none."""
    if name not in MADE:
        raise ConfigError(f'schema: there is no "{name}" (expected {", ".join(MADE)})')
    return MADE[name]()


def text(name: str) -> str:
    """The same as a file has it."""
    return _laid_out(schema(name), 0, 0) + "\n"


def write(name: str, path: Path) -> None:
    """Writes the file, whole at any time."""
    made = text(name)
    with in_place(path) as unfinished:
        unfinished.write_text(made)


def _laid_out(tree, depth, used):
    """JSON in which whatever fits is one line: of `used` columns before it, and one for a comma."""
    whole = json.dumps(tree, ensure_ascii=False)
    if not isinstance(tree, (dict, list)) or not tree or used + len(whole) < _COLUMNS:
        return whole
    margin = " " * (depth + 1)
    names = [f"{json.dumps(key, ensure_ascii=False)}: " for key in tree] if isinstance(tree, dict) else [""] * len(tree)
    values = tree.values() if isinstance(tree, dict) else tree
    inside = ",\n".join(margin + name + _laid_out(value, depth + 1, len(margin + name)) for name, value in zip(names, values))
    first, last = "{}" if isinstance(tree, dict) else "[]"
    return f"{first}\n{inside}\n{' ' * depth}{last}"
