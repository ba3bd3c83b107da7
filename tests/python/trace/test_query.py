"""SQL over a trace."""
import sys

import pytest
from test_trace import counter, perfetto, span
from vitro.errors import ConfigError
from vitro.trace.query import query


@pytest.fixture
def folder(tmp_path):
    perfetto(tmp_path, [span(1, 0, 10), span(2, 5, 10), span(1, 30, 10, "attention"), counter(0, 4), counter(9, 14)])
    return tmp_path


def test_spans_and_counters_are_tables(folder):
    rows = query(folder, 'SELECT "group", track, name, sum(dur_us) AS us FROM spans GROUP BY ALL ORDER BY us DESC')
    assert rows.to_numpy().tolist() == [["units", "cpu0", "matmul blk.0", 20], ["units", "cpu0", "attention", 10]]
    assert query(folder, "SELECT max(value) FROM counters").to_numpy().tolist() == [[14]]


def test_flows_are_a_table_that_is_empty_where_a_trace_has_none(tmp_path, folder):
    assert query(folder, "SELECT count(*), max(kernel) FROM flows").iloc[0, 0] == 0
    storage = [{"ph": "M", "pid": 2, "tid": 0, "name": "process_name", "args": {"name": "vitro sim: storage"}},
               {"ph": "X", "pid": 2, "tid": 1, "name": "read", "ts": 5, "dur": 8, "args": {"detail": "0+4096"}}]
    bound = [{"ph": phase, "pid": pid, "tid": 1, "ts": at, "id": 7, "bp": "e", "cat": "read", "name": "read"}
             for phase, pid, at in (("s", 1, 5), ("t", 2, 5), ("f", 1, 30))]
    perfetto(tmp_path, [span(1, 0, 10), span(1, 30, 10, "attention"), *storage, *bound])
    rows = query(tmp_path, "SELECT flow, request, kernel, track, kernel_begin_us - done_us AS us FROM flows")
    assert rows.to_numpy().tolist() == [[7, "0+4096", "attention", "cpu0", 17]]


def test_the_command_prints_a_table_or_json(fake, folder):
    answer = fake("trace", "query", folder, "SELECT name, count(*) AS n FROM spans GROUP BY name ORDER BY n DESC")
    assert answer.code == 0 and [line.split() for line in answer.out.splitlines()[1:3]] == [["name", "n"], ["matmul", "blk.0", "2"]]
    answer = fake("trace", "query", folder, "SELECT at_us, value FROM counters", "--json")
    assert answer.json == {"columns": ["at_us", "value"], "rows": [[0, 4], [9, 14]]}


def test_rows_are_counted_in_the_heading(fake, folder):
    heading = [fake("trace", "query", folder, f"SELECT at_us FROM counters LIMIT {count}").out.splitlines()[0] for count in (0, 1, 2)]
    assert heading == ["0 rows", "1 row", "2 rows"]


@pytest.mark.parametrize("sql, hinted", [
    ("SELECT group FROM spans", True), ("SELECT Group, nope FROM spans GROUP  BY ALL", True), ("SELECT spans.group, FROM FROM spans", True),
    ("SELECT nope, track FROM spans GROUP\n/* of all */ BY track", False), ('SELECT nope, "group" FROM spans -- group', False),
    ("SELECT nope FROM spans WHERE name = 'a group'", False),
    ("SELECT nope, mode() WITHIN GROUP (ORDER BY track) FROM spans", False)])
def test_a_group_without_quotes_is_hinted_at(folder, sql, hinted):
    with pytest.raises(ConfigError) as caught:
        query(folder, sql)
    assert str(caught.value).endswith('; `group` is a word of SQL: write "group"') == hinted, caught.value


@pytest.mark.parametrize("sql, count", [("SELECT 1; SELECT 2", 2), ("SELECT 1; DROP TABLE spans; SELECT 2;", 3)])
def test_several_statements_are_refused(folder, sql, count):
    with pytest.raises(ConfigError, match=f"has {count} statements .expected one SELECT"):
        query(folder, sql)


def test_one_statement_may_end_with_a_semicolon(folder):
    assert query(folder, "SELECT ';' AS a; ").to_numpy().tolist() == [[";"]]


@pytest.mark.parametrize("sql, said", [("SELECT nope FROM spans", 'column "nope" not found'), ("SELEC 1", "Parser Error"),
                                       ("SELECT * FROM read_csv('/etc/passwd')", "disabled"), ("", "gives no rows"),
                                       ("-- nothing", "gives no rows"), ("SELECT 1\nFROM\nnowhere", "nowhere does not exist")])
def test_what_can_not_run_is_one_message(folder, sql, said):
    with pytest.raises(ConfigError) as caught:
        query(folder, sql)
    assert said in str(caught.value) and "\n" not in str(caught.value) and "LINE" not in str(caught.value)


def test_where_duckdb_lacks_its_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ConfigError, match=r"pip install 'vitro\[sql\]'"):
        query(folder, "SELECT 1")
