"""The schemas by name, as texts and files."""
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.whole_files import in_place
from ..errors import ConfigError
from . import device, experiment, plan

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
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


def write(name: str, path: Path) -> None:
    """Writes the file, whole at any time."""
    made = text(name)
    with in_place(path) as unfinished:
        unfinished.write_text(made)
