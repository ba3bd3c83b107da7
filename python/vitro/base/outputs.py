"""Where answers are to be written, looked at before work of minutes begins."""
import tempfile
from pathlib import Path

from ..errors import ConfigError
from .inputs import require_utf8


def file(path, name):
    """-> Path. Raises ConfigError when no file can be written there; leaves nothing behind."""
    path = Path(path)
    require_utf8(str(path), name)
    if path.exists() and not path.is_file():  # a device such as /dev/null would be replaced by the file
        raise ConfigError(f"{name}: {path} is {'a folder' if path.is_dir() else 'no regular file'} (expected a file to write)")
    _probe(path.absolute().parent, path, name)
    return path


def folder(path, name):
    """-> Path, of a folder that is there or can be made. Raises ConfigError otherwise; makes nothing."""
    path = Path(path)
    require_utf8(str(path), name)
    above = path.absolute()
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise ConfigError(f"{name}: {path}: {above} is a file (expected a folder)")
    _probe(above, path, name)
    return path


def _probe(above, path, name):
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise ConfigError(f"{name}: {path} can not be written: {error.strerror}") from None
