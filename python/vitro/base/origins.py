"""Where the values of a file were written, so that messages name file and line like those of the engine."""
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigError


class Origins:
    """tree: {"at": "exp.yaml:3", "of": {key or index: such a tree}}, as the extension module gives it; ":3" of the file around it."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.tree = tree

    def at(self, *steps: str | int) -> str:
        """The place of a value, by the keys and indices that lead to it; of what is around it where it is missing."""
        node, file = self.tree, ""
        for step in steps:
            file = node["at"].rpartition(":")[0] or file
            if (inner := node.get("of", {}).get(str(step))) is None:
                break
            node = inner
        return f"{file}{node['at']}" if node["at"].startswith(":") else node["at"]


@contextmanager
def with_origins(look: Callable[[], Origins]) -> Iterator[None]:
    """Errors within that say which value they are about (`at`) get its file and line. look: called only for those."""
    try:
        yield
    except ConfigError as error:
        if error.at is None:
            raise
        raise ConfigError(f"{look().at(*error.at)}: {error}") from None
