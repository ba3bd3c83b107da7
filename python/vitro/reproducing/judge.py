"""What a row of a reproduction comes to: its status, whether its diagnosis explains it, and how many of each a paper has.

A row is a prediction if nothing that its runs are set by is the published value itself. Only predictions are scored.
"""
import re
from collections.abc import Sequence
from typing import Any

from ..base.figures import BOUND_WITHIN, is_range, relative_error
from .paper_map import KINDS, POINTS, Question

WITHIN = 0.15             # speeds, ratios, energy, sizes
PERCENTILES_WITHIN = 0.25
STATUSES = ("ok", "off", "consistent", "not modelled", "contradictory", "reserved")
SCORED = ("ok", "off", "not modelled")


def relation_of(question: Question) -> str:
    """`=`, `<`, `>` or `range`."""
    return "range" if is_range(question.expected) else question.answer.get("relation", "=")


def status_of(question: Question, simulated: float | None, whole: bool) -> str:
    """One of STATUSES. whole: whether every run did what it was asked."""
    if question.status is not None:
        return question.status
    if simulated is None or not whole or question.expected is None:
        return "not modelled"
    if "consistent" in question.answer:
        return "consistent"
    return "ok" if holds(question, simulated) else "off"


def holds(question: Question, simulated: float) -> bool:
    """Whether a simulated value is as close to the published one as docs/guide/reproduce.md asks."""
    relation, expected = relation_of(question), question.expected
    error = relative_error(expected, simulated)
    if relation in ("<", ">"):
        return error <= BOUND_WITHIN if relation == "<" else error >= -BOUND_WITHIN
    if relation == "range":
        return error == 0
    if question.entry["unit"] == "%":
        return abs(simulated - expected) <= question.answer.get("points", POINTS)
    return abs(error) <= (PERCENTILES_WITHIN if re.search(r"\.p\d+$", question.id) else WITHIN)


def explained(row: dict[str, Any]) -> bool | None:
    """Of a row that is off: whether the run of its diagnosis is inside the tolerance. None: its diagnosis was not run."""
    if "diagnosis" in row:
        return row["diagnosis"]["ok"]
    return None if row["diagnosed"] else False


def summary(rows: Sequence[dict[str, Any]], checks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts of results and ablations by status, and of checks. `off` splits into explained, unexplained and, where diagnoses were not
    run, untried."""
    results = [row for row in rows if row["kind"] in KINDS]
    counts = {status: sum(row["status"] == status for row in results) for status in STATUSES}
    verdicts = [explained(row) for row in results if row["status"] == "off"]
    scored = sum(counts[status] for status in SCORED)
    return counts | {"off_explained": verdicts.count(True), "off_unexplained": verdicts.count(False), "off_untried": verdicts.count(None),
                     "scored": scored, "ok_share": counts["ok"] / scored if scored else None,
                     "checks": len(checks), "checks_held": sum(check["holds"] is True for check in checks),
                     "checks_failed": sum(check["holds"] is False for check in checks)}
