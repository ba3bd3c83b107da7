"""Where the values of a file were written, so that messages name file and line like those of the engine."""
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigError

_KEY = re.compile(r"([a-z_]+(?:\.\w+)*): ")


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


@contextmanager
def of_run(look: Callable[[], Origins]) -> Iterator[None]:
    """The same for errors of a run whose messages begin with a key: what the machine alone can judge, such as a budget, it knows without
    its line."""
    try:
        yield
    except ConfigError as error:
        named = error.at is None and _KEY.match(str(error))
        if not named or (steps := tuple(named[1].split(".")))[0] not in (origins := look()).tree.get("of", {}):
            raise
        raise ConfigError(f"{origins.at(*_present(origins.tree, steps))}: {error}") from None


def _present(tree: Mapping[str, Any], steps: tuple[str, ...]) -> tuple[str, ...]:
    """A message has a key as it was written, such as engine.units, and the tree its present name, engine.placement.units."""
    def found(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for key, inner in node.get("of", {}).items():
            if key == steps[-1]:
                yield (*path, key)
            yield from found(inner, (*path, key))
    within = list(found(tree["of"][steps[0]], steps[:1]))
    return steps if steps in within or len(within) != 1 else within[0]
