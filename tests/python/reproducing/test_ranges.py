"""Rows over what a paper leaves open: a range, what is shown beside it, and percentiles of single steps."""
import pytest
from test_paper import rows_of, toy, write  # noqa: F401  (a fixture)
from vitro.errors import ConfigError
from vitro.reproducing import paper as reproducing
from vitro.reproducing import show as showing

SECRET = {"each": ["mmap", "dense"], "fold": "range", "runs": {"a": "{}"}, "formula": "a.decode_tokens_per_s",
          "beside": {"ms for a token": "a.token_latency_ms.mean"}}


def of(runs_words, folder):
    runs = {"entries/toy_secret": {"runs": {"a": runs_words}, "formula": "a.decode_tokens_per_s"}}
    return rows_of(reproducing.reproduce("toy", folder=write(folder, runs), only="toy_secret"))["toy_secret"]["simulated"]


def test_a_range_has_the_first_items_value_and_the_ends_over_all(toy):  # noqa: F811
    slow, fast = of("mmap", toy), of("dense", toy)
    answer = reproducing.reproduce("toy", folder=write(toy, {"entries/toy_secret": SECRET}))
    row = rows_of(answer)["toy_secret"]
    assert row["simulated"] == row["low"] == slow < row["high"] == fast
    assert row["beside"]["ms for a token"] == pytest.approx({"low": 1e3 / fast, "high": 1e3 / slow})
    line = next(line for line in showing.tables(answer).splitlines() if "`toy_secret`" in line)
    assert "ms for a token" in line and " to " in line.split("|")[3]


def test_a_range_of_which_an_item_is_missing_is_no_number(toy):  # noqa: F811
    changed = SECRET | {"each": ["mmap", "magic"]}
    row = rows_of(reproducing.reproduce("toy", folder=write(toy, {"entries/toy_secret": changed}), only="toy_secret"))["toy_secret"]
    assert row["simulated"] is None and "low" not in row and row["beside"]["ms for a token"] == {} and "magic" in row["why"]


def test_what_stands_beside_a_row_names_its_runs(toy):  # noqa: F811
    with pytest.raises(ConfigError, match='toy_secret: beside: there is no run "b"'):
        reproducing.reproduce("toy", folder=write(toy, {"entries/toy_secret": SECRET | {"beside": {"x": "b.ttft_ms"}}}))


def test_percentiles_of_single_steps_are_of_steps_that_asked_the_cache():
    steps = {"hits": [9, 10, 8, 0, 10], "accesses": [10, 10, 10, 0, 10]}
    assert reproducing._of_steps({"steps": steps}) == {"step_miss_rate": pytest.approx({"p50": 0.0, "p90": 0.2, "p99": 0.2})}
    many = {"hits": list(range(1, 101)), "accesses": [100] * 100}
    assert reproducing._of_steps({"steps": many})["step_miss_rate"] == pytest.approx({"p50": 0.49, "p90": 0.89, "p99": 0.98})
    assert reproducing._of_steps({"metrics": {}}) == reproducing._of_steps({"steps": {"latency_ms": [1]}}) == {}
