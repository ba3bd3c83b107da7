"""What the engine's reader says of a value that can not be right: which keys a map has, and what a key expects."""
import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]

NOBODY = "zzzzzzzzzzzzzzzzzz"  # no key and no name of anything, and not close to one
_MESSAGE = re.compile(r"^(?:[^:]*:\d+: )?(?P<key>[\w.\-]+): (?P<problem>.*)$", re.DOTALL)
_ONE_OF = "one of: "
_EXPECTED = re.compile(r"\(expected (?P<what>.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class Complaint:
    """A message of the reader: of which dotted key, and what is wrong."""

    key: str
    problem: str

    @property
    def expected(self) -> str:
        """What stands behind "expected" in brackets, or nothing."""
        found = _EXPECTED.search(self.problem)
        return found["what"] if found else ""

    @property
    def choices(self) -> list[str]:
        """The names of "expected one of: a, b", or none."""
        return self.expected.removeprefix(_ONE_OF).split(", ") if self.expected.startswith(_ONE_OF) else []

    @property
    def last(self) -> str:
        return self.key.rpartition(".")[2]


@dataclass(frozen=True)
class Asker:
    """complain: reads a tree as the engine would -> its message, or None where it has none. base: a tree without a mistake."""

    complain: Callable[[dict[str, Any]], str | None]
    base: dict[str, Any]

    def with_value(self, path: Path, value: Any) -> "Asker":
        return Asker(self.complain, placed(self.base, path, value))

    def said(self, path: Path, value: Any) -> Complaint | None:
        """The message when the value at `path` is `value`; None also where the message is of another place."""
        text = self.complain(placed(self.base, path, value))
        found = _MESSAGE.match(text) if text else None
        if found is None:
            return None
        complaint = Complaint(found["key"], found["problem"])
        return complaint if concerns(complaint.key, path) else None


def concerns(key: str, path: Path) -> bool:
    """Whether a dotted key of a message is at `path` or below it. Items of a list have no number in messages."""
    names = [step for step in path if isinstance(step, str)]
    return key.split(".")[:len(names)] == names


def placed(tree: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of the tree with `value` at `path`; maps are made on the way, and what is no map there is replaced."""
    whole: Any = copy.deepcopy(tree)
    at = whole
    for step, after in zip(path, path[1:]):
        if isinstance(step, int):
            at = at[step]
            continue
        if not isinstance(at.get(step), list if isinstance(after, int) else dict):
            at[step] = [{}] if isinstance(after, int) else {}
        at = at[step]
    at[path[-1]] = value
    return whole


def at_path(tree: Any, path: Sequence[str | int]) -> Any:
    """The value there, or None."""
    for step in path:
        if isinstance(step, int):
            tree = tree[step] if isinstance(tree, list) and step < len(tree) else None
        else:
            tree = tree.get(step) if isinstance(tree, dict) else None
    return tree
