"""Where vitro keeps what it can make again."""
import os
from pathlib import Path


def cache_folder() -> Path:
    """VITRO_CACHE, or `vitro` in the user's cache folder; made where it is missing."""
    chosen = os.environ.get("VITRO_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(chosen) if chosen else Path(base) / "vitro" if base else Path.home() / ".cache" / "vitro"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
