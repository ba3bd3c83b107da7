"""Resolved devices of a study's site: pages that points share. A device is larger than all else that a point says of itself."""
import json
from collections.abc import Iterator
from typing import Any

from ..base.trees import flatten

_MISSING = object()
_DIFFERENT = 40  # parameters, beyond which a device has a page of its own


class Devices:
    """The first device of each kind, and how others differ from it."""

    def __init__(self) -> None:
        self._known: list[tuple[dict[str, Any], dict[str, Any]]] = []  # (a tree, flat)

    def of(self, resolved: dict[str, Any]) -> dict[str, Any] | None:
        """-> {"page", "name", "changes": [(parameter, value)]}, or None where an experiment has no device."""
        tree = resolved.get("device")
        if not isinstance(tree, dict):
            return None
        at, changes = self._nearest(tree)
        return {"page": page_of(at), "name": str(tree.get("name") or "the device"),
                "changes": [(name, "none" if value is None else json.dumps(value, ensure_ascii=False)) for name, value in changes.items()]}

    def _nearest(self, tree):
        for at, (known, _) in enumerate(self._known):
            if known == tree:
                return at, {}
        flat = flatten(tree)
        found = [(at, {name: flat.get(name) for name in {**known, **flat} if flat.get(name, _MISSING) != known.get(name, _MISSING)})
                 for at, (_, known) in enumerate(self._known)]
        at, changes = min(found, key=lambda one: len(one[1]), default=(0, None))
        if changes is None or len(changes) > _DIFFERENT:
            self._known.append((tree, flat))
            return len(self._known) - 1, {}
        return at, changes

    def pages(self) -> Iterator[tuple[str, str, str]]:
        """(page, name, JSON) of those that have one."""
        for at, (tree, _) in enumerate(self._known):
            yield page_of(at), str(tree.get("name") or "the device"), json.dumps(tree, indent=2, ensure_ascii=False)


def page_of(at: int) -> str:
    return f"{at:05d}.html"
