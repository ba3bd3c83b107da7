"""What a run that its memory budget refused is told besides: the smallest budget that works."""
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..base import process, quantities
from ..errors import ConfigError, Lost, Overtime, RunError, VitroError

_SIGNS = ("memory.budget", "memory.ffn_in_dram", "do not fit", "no memory for", "no free block")  # of messages that more may answer
_KEY, _SHARE = "memory.budget: ", "memory.ffn_in_dram: "
_MIB, _KIB = 2 ** 20, 2 ** 10
_NO_MATTER = ("experiment", "description", "sweep", "search", "metrics", "expect")  # for memory


@contextmanager
def said(tree: str, resolved: Mapping[str, Any], attached: Sequence[dict[str, Any]]) -> Iterator[None]:
    """Errors within, of a run, that a larger budget would not have had become a ConfigError that says which one is enough. tree, resolved:
    of its Composed. attached: what its process gets besides."""
    try:
        yield
    except (ConfigError, RunError) as error:
        told = Budgets().told(error, tree, resolved, attached)
        if told is error:
            raise
        raise told from None


class Budgets:
    """Those that were found, so that points of a sweep that differ in budget or seed alone are tried once, also where nothing was found."""

    def __init__(self, limit_s: float | None = None) -> None:
        """limit_s: of each trial."""
        self._limit_s = limit_s
        self._known: dict[str, dict[str, Any]] = {}
        self._nothing: dict[str, int] = {}  # the budget from which on there is nothing to say

    def told(self, error: VitroError, tree: str, resolved: Mapping[str, Any], attached: Sequence[dict[str, Any]]) -> VitroError:
        """The error, or one that says besides which budget is enough."""
        if isinstance(error, (Lost, Overtime)) or not any(sign in str(error) for sign in _SIGNS):
            return error
        found = self._found(tree, resolved, attached)
        return error if found is None else ConfigError(_told(str(error), resolved, found))

    def _found(self, tree, resolved, attached):
        memory = resolved.get("memory") or {}
        budget = None if memory.get("ffn_in_dram") is not None else memory.get("budget")  # which share is enough depends on the budget
        given = None if budget is None else quantities.parse(budget, "bytes")
        alike = {key: value for key, value in resolved.items() if key not in _NO_MATTER} | {
            "memory": {key: value for key, value in memory.items() if budget is None or key != "budget"},
            "workload": {key: value for key, value in (resolved.get("workload") or {}).items() if key != "seed"}}
        key = json.dumps([budget is None, alike], sort_keys=True)
        if key in self._nothing and (given is None or given >= self._nothing[key]):
            return None
        if key in self._known:
            return self._known[key] if given is None or given < self._known[key]["budget"] else None
        try:
            found = process.call("smallest_budget", tree, attached=[one for one in attached if one["name"] != "scorer"],
                                 limit_s=self._limit_s)
        except (ConfigError, RunError):  # then the run's own error is all there is to say
            self._nothing[key] = 0
            return None
        if found is None:
            self._nothing[key] = given or 0  # it is enough, and so are larger ones
        else:
            self._known[key] = found
        return found


def _told(message, resolved, found):
    memory = resolved.get("memory") or {}
    how = f" (found by trying{' with the first tokens alone' if found['at_least'] else ''})"
    if found.get("share") is not None:
        return (f"{_SHARE}{memory['ffn_in_dram']} is too little: {message.removeprefix(_SHARE).removeprefix(_KEY)}; the smallest that "
                f"works is {found['share'] * 100:.4g}%{how}")
    given = memory.get("budget")
    value = given if given is not None else f"the {written(found['tried'])} that there are"
    enough = f"the smallest that works is {'at least ' if found['at_least'] else ''}{written(found['budget'])}{how}"
    return f"{_KEY}{value} is too little: {message.removeprefix(_KEY)}; {enough}"


def written(count: int) -> str:
    """Bytes without a rest: "12 MiB", "12324 KiB", "5 B"."""
    for unit, name in ((_MIB, "MiB"), (_KIB, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"
