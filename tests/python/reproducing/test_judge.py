"""What is ok, what is consistent, what counts as a prediction and what its diagnosis explains."""
import re

import pytest
from conftest import ROOT
from vitro.reproducing import judge
from vitro.reproducing import paper_map as maps


def question(expected, unit="tokens/s", name="r", status=None, **answer):
    return maps.Question(name, {"id": name, "unit": unit, "source": ""}, expected, status, answer=answer)


@pytest.mark.parametrize("name,unit,expected,relation,simulated,ok", [
    ("r", "tokens/s", 10, "=", 11.4, True), ("r", "tokens/s", 10, "=", 11.6, False), ("r", "x", 10, "=", 8.4, False),
    ("r", "%", 76.7, "=", 81.6, True), ("r", "%", 76.7, "=", 81.8, False), ("r", "%", 13.7, "=", 8.6, False),
    ("r.p99", "ms/token", 100, "=", 124, True), ("r.p99", "ms/token", 100, "=", 126, False),
    ("r.mean", "ms/token", 100, "=", 116, False), ("r", "J/token", 1, "=", 1.14, True),
    ("r", "tokens/s", 700, ">", 2000, True), ("r", "tokens/s", 700, ">", 690, False), ("r", "tokens/s", 700, "<", 690, True),
    ("r", "GB/s", [43.9, 59.6], "range", 43.9, True), ("r", "GB/s", [43.9, 59.6], "range", 43.8, False),
])
def test_what_is_ok(name, unit, expected, relation, simulated, ok):
    asked = question(expected, unit, name, **({} if relation == "range" else {"relation": relation}))
    assert judge.relation_of(asked) == relation
    assert judge.holds(asked, simulated) is ok
    assert judge.status_of(asked, simulated, whole=True) == ("ok" if ok else "off")


def test_a_percentage_may_be_held_to_fewer_points():
    assert judge.holds(question(3, "%"), 0.1)
    assert not judge.holds(question(3, "%", points=1), 0.1)


def test_what_is_set_by_its_own_value_is_consistent_however_close_it_comes():
    assert [judge.status_of(question(10, consistent="is an input"), simulated, True) for simulated in (10.0, 90.0)] == ["consistent"] * 2
    assert judge.status_of(question(10, consistent="is an input"), None, True) == "not modelled", "nothing ran, so nothing was consistent"
    assert judge.status_of(question(10, status="contradictory", consistent="is an input"), 10.0, True) == "contradictory"


def row(status, kind="system_result", **more):
    return {"status": status, "kind": kind, "diagnosed": False} | more


def test_only_predictions_are_scored_and_what_is_off_is_explained_by_a_run_or_not():
    rows = [row("ok"), row("ok"), row("consistent"), row("contradictory"), row("reserved"), row("not modelled"),
            row("off", diagnosed=True, diagnosis={"ok": True}), row("off", diagnosed=True, diagnosis={"ok": False}), row("off"),
            row("off", diagnosed=True), row("ok", kind="workload_stat"), row("off", kind="workload_stat")]
    found = judge.summary(rows, [{"holds": True}, {"holds": False}, {"holds": None}])
    assert found == {"ok": 2, "off": 4, "consistent": 1, "not modelled": 1, "contradictory": 1, "reserved": 1,
                     "off_explained": 1, "off_unexplained": 2, "off_untried": 1, "scored": 7, "ok_share": 2 / 7,
                     "checks": 3, "checks_held": 1, "checks_failed": 1}
    assert judge.summary([row("consistent")], [])["ok_share"] is None


def cited():
    """Ids of published values that a file of configs/ says it is set by."""
    texts = [path.read_text() for folder in ("devices", "models", "engines") for path in (ROOT / "configs" / folder).rglob("*.yaml")]
    return {name for text in texts for name in re.findall(r"\b(?:pi2|mnn|tts|tman|npumoe)_\w+", text)}


@pytest.mark.parametrize("paper", maps.papers())
def test_no_value_that_sets_a_parameter_is_scored(paper):
    results = [question for question in maps.load(paper).questions if question.entry["kind"] in maps.KINDS]
    asked = [question for question in results if question.entry["id"] in cited()]
    assert all(question.status or "consistent" in question.answer for question in asked), [question.id for question in asked]
    assert len(cited()) > 30, "configs/ names the published values that set its parameters"
