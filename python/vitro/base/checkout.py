"""Where configs/ and experiments/ lie, and names of what is in them: vitro:devices/oneplus12, vitro:experiments/quickstart."""
import os
from pathlib import Path

from ..errors import ConfigError

SHIPPED = "vitro:"


def root() -> Path:
    """The folder that holds configs/ and experiments/: of an installed package, of the checkout, or the working directory."""
    for folder in (Path(__file__).parents[1] / "data", Path(__file__).parents[3], Path.cwd()):
        if (folder / "configs").is_dir() or (folder / "experiments").is_dir():
            return folder
    raise ConfigError("configs/ and experiments/ were not found (run this inside a checkout of vitro)")


def shipped_path(text: str) -> str:
    """"vitro:devices/oneplus12" -> the path of configs/devices/oneplus12.yaml of this vitro; any other text as it is. Folders of
    configs/ need not be said with it, nor the ending of a YAML file. Raises ConfigError where no such file comes with vitro."""
    if not text.startswith(SHIPPED):
        return text
    inside = Path(text.removeprefix(SHIPPED))
    if inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise ConfigError(f"{text}: is no name of a file that comes with vitro (expected such as vitro:experiments/quickstart)")
    path = (root() if inside.parts[0] in ("experiments", "configs") else root() / "configs") / inside
    named = next((one for one in (path, path.with_name(f"{path.name}.yaml")) if one.is_file()), None)
    if named is None:
        raise ConfigError(f"{text}: does not come with vitro (looked for {path})")
    return str(named)


def called_here(path: str | os.PathLike[str]) -> str:
    """How to name a file from the working directory: by its path from there, and what comes with vitro and lies elsewhere by its name."""
    near, configs = os.path.relpath(path), root() / "configs"
    if not near.startswith(os.pardir) or not Path(path).is_relative_to(configs):
        return near
    return SHIPPED + Path(path).relative_to(configs).as_posix().removesuffix(".yaml")
