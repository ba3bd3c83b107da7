"""Where configs/ and experiments/ lie."""
from pathlib import Path

from ..errors import ConfigError


def root():
    """The folder that holds configs/ and experiments/: the checkout, or the working directory."""
    for folder in (Path(__file__).parents[3], Path.cwd()):
        if (folder / "configs").is_dir() or (folder / "experiments").is_dir():
            return folder
    raise ConfigError("configs/ and experiments/ were not found (run this inside a checkout of vitro)")
