"""Where the values of a file were written, so that messages name file and line like those of the engine."""
from contextlib import contextmanager

from .errors import ConfigError


class Places:
    """tree: {"at": "exp.yaml:3", "of": {key or index: such a tree}}, as the extension module gives it."""

    def __init__(self, tree):
        self.tree = tree

    def at(self, *steps):
        """The place of a value, by the keys and indices that lead to it; of what is around it where it is missing."""
        node = self.tree
        for step in steps:
            if (inner := node["of"].get(str(step))) is None:
                break
            node = inner
        return node["at"]


@contextmanager
def placed(look):
    """Errors within that say which value they are about (`at`) get its file and line. look: -> Places, called only for those."""
    try:
        yield
    except ConfigError as error:
        if error.at is None:
            raise
        raise ConfigError(f"{look().at(*error.at)}: {error}") from None
