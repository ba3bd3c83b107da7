"""What users pass to functions and commands: experiments, overrides, paths."""
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..errors import ConfigError
from .checkout import shipped_path

Path = str | os.PathLike[str]
Experiment = Path | Mapping[str, Any]  # a path, a YAML text or a tree
Overrides = Mapping[str, Any] | Sequence[str] | str | None
Progress = Callable[[int, int], None]  # called with (done, total)


class DeviceTree(Protocol):
    """What has the tree of a device file, such as a vitro.Device."""

    @property
    def tree(self) -> dict[str, Any]: ...


def as_source(experiment: Experiment) -> tuple[str, str, bool]:
    """-> (source, name, is_path) as the extension module wants it."""
    if isinstance(experiment, Mapping):
        return json.dumps(experiment), "<dict>", False
    if isinstance(experiment, str) and ("\n" in experiment or ": " in experiment):
        return experiment, "<text>", False
    if not isinstance(experiment, (str, os.PathLike)) or not os.fspath(experiment):
        raise ConfigError(f"experiment: {experiment!r} (expected a path, a YAML text or a dict)")
    path = existing(experiment)
    return path, path, True


def as_overrides(overrides: Overrides, device: Path | DeviceTree | None = None) -> list[str]:
    """A dict or a list of key=value -> list of key=value. Values that are not texts are written as JSON, which is YAML.
    A device, a path or a vitro.Device, comes first, so that overrides may change it."""
    if device is not None:
        text = existing(device) if isinstance(device, (str, os.PathLike)) else json.dumps(device.tree)
        return [f"device={text}", *as_overrides(overrides)]
    if overrides is None:
        return []
    if isinstance(overrides, Mapping):
        return [f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}" for key, value in
                overrides.items()]
    if isinstance(overrides, str):
        overrides = [overrides]
    for item in overrides:
        key, equals, _ = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f'override "{item}" is not of the form key=value (such as memory.budget=6 MiB)')
        require_utf8(item, "override")
    return list(overrides)


def overrides_with_origin(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """{"a.b": value} that a file has -> overrides with the file's name and line, by places: {"a.b": "exp.yaml:3"}. A text is that text,
    even where YAML would read more into it, as into a prompt with a colon."""
    return [f"@{origins[key]}\n{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def require_utf8(text: str, what: str) -> None:
    """What comes from a command line holds bytes that are no text as lone surrogates; paths go into files and messages that are UTF-8.
    Raises ConfigError."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError(f"{what} {text!r} is not UTF-8 text")


def existing(path: Path) -> str:
    """A file's path as a text; of a name such as vitro:devices/oneplus12 where that lies. Raises ConfigError where there is no regular
    file."""
    path = os.fspath(path)
    require_utf8(path, "path")
    path = shipped_path(path)
    if not os.path.exists(path):
        raise ConfigError(f"{path}: no such file")
    if os.path.isdir(path):
        raise ConfigError(f"{path}: is a folder, not a file")
    if not os.path.isfile(path):  # a pipe that nobody writes to, or a device without an end
        raise ConfigError(f"{path}: is no regular file")
    return path
