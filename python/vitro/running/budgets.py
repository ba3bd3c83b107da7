"""What a run that its memory budget refused is told besides: the smallest budget that works."""
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..base import process
from ..errors import ConfigError, Lost, Overtime, RunError

_SIGNS = ("memory.budget", "do not fit", "no memory for", "no free block")  # of messages that a larger budget may answer
_KEY = "memory.budget: "
_MIB, _KIB = 2 ** 20, 2 ** 10


@contextmanager
def said(tree: str, resolved: Mapping[str, Any], attached: Sequence[dict[str, Any]]) -> Iterator[None]:
    """Errors within, of a run, that a larger budget would not have had become a ConfigError that says which one is enough. tree, resolved:
    of its Composed. attached: what its process gets besides."""
    try:
        yield
    except (Lost, Overtime):
        raise
    except (ConfigError, RunError) as error:
        found = _found(tree, attached) if any(sign in str(error) for sign in _SIGNS) else None
        if found is None:
            raise
        raise ConfigError(_told(str(error), resolved, found)) from None


def _found(tree, attached):
    try:
        return process.call("smallest_budget", tree, attached=[one for one in attached if one["name"] != "scorer"])
    except (ConfigError, RunError):
        return None  # then the run's own error is all there is to say


def _told(message, resolved, found):
    given = (resolved.get("memory") or {}).get("budget")
    value = given if given is not None else f"the {written(found['tried'])} that there are"
    enough = f"the smallest that works is {'at least ' if found['at_least'] else ''}{written(found['budget'])} (found by trying"
    how = " with the first tokens alone)" if found["at_least"] else ")"
    return f"{_KEY}{value} is too little: {message.removeprefix(_KEY)}; {enough}{how}"


def written(count: int) -> str:
    """Bytes without a rest: "12 MiB", "12324 KiB", "5 B"."""
    for unit, name in ((_MIB, "MiB"), (_KIB, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"
