"""SQL over a trace."""
import contextlib
import sys

import pandas
import pytest
import vitro.trace.query
from pyarrow import parquet
from test_trace import counter, perfetto, span
from vitro.base.whole_files import in_place
from vitro.errors import ConfigError
from vitro.trace.query import query, query_to


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


READ = {".parquet": lambda path: parquet.read_table(path).to_pandas(), ".csv": pandas.read_csv}
LATE = "SELECT CASE WHEN i < 50000 THEN i ELSE error('too late') END AS i FROM range(60000) AS t(i)"


@pytest.mark.parametrize("ending", READ)
def test_rows_go_to_a_file_as_they_come(folder, tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    assert query_to(folder, "SELECT at_us, value FROM counters ORDER BY 1", path) == 2
    assert READ[ending](path).to_numpy().tolist() == [[0, 4], [9, 14]]
    assert query_to(folder, "SELECT i, 'a,\"' || i AS t FROM range(25000) AS r(i)", path) == 25_000
    assert READ[ending](path).iloc[-1].tolist() == [24_999, 'a,"24999']


@pytest.mark.parametrize("ending", READ)
@pytest.mark.parametrize("sql, said", [
    (LATE, "too late"), ("SELECT CAST(name AS INT) FROM spans", "Could not convert"), ("SELECT nope FROM spans", "not found"),
    ("SELECT 1; SELECT 2", "has 2 statements")], ids=["late", "cast", "unknown", "two"])
def test_an_error_is_one_message_and_what_was_there_stays(fake, folder, tmp_path, ending, sql, said):
    path = tmp_path / f"rows{ending}"
    path.write_text("before")
    with pytest.raises(ConfigError) as caught:
        query_to(folder, sql, path)
    assert str(caught.value).startswith("trace query: ") and said in str(caught.value) and "\n" not in str(caught.value)
    answer = fake("trace", "query", folder, sql, "--out", path)
    assert answer.code == 2 and said in " ".join(answer.err.split())
    assert path.read_text() == "before" and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("ending, value, kind", [(".csv", "[1, 2]", "list"), (".csv", "INTERVAL 1 DAY", "interval"),
                                                 (".csv", "{'a': 1}", "struct"), (".parquet", "INTERVAL 1 DAY", "interval")])
def test_a_column_that_a_format_can_not_hold_is_named(folder, tmp_path, ending, value, kind):
    with pytest.raises(ConfigError, match=f"trace query: column 'odd' is .*{kind}.*, which {ending} can not hold"):
        query_to(folder, f"SELECT 1 AS a, {value} AS odd", tmp_path / f"rows{ending}")
    assert not list(tmp_path.glob("*rows*")) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("ending", READ)
def test_where_it_can_not_be_written_the_trace_is_not_read(folder, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(vitro.trace.query, "_answered", None)
    (tmp_path / f"a{ending}").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        query_to(folder, "SELECT 1", tmp_path / f"a{ending}")
    with pytest.raises(FileNotFoundError) as caught:
        query_to(folder, "SELECT 1", tmp_path / "nowhere" / f"a{ending}")
    assert caught.value.filename == str(tmp_path / "nowhere" / f"a{ending}")
    with pytest.raises(ConfigError, match="ends in .parquet or .csv"):
        query_to(folder, "SELECT 1", tmp_path / "rows.txt")


@contextlib.contextmanager
def full(path):
    with in_place(path) as unfinished:
        unfinished.symlink_to("/dev/full")
        yield unfinished


@pytest.mark.parametrize("ending", READ)
def test_a_full_disk_is_told_of_the_file(folder, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(vitro.trace.query, "in_place", full)
    with pytest.raises(OSError, match="No space left") as caught:
        query_to(folder, "SELECT i FROM range(100000) AS t(i)", tmp_path / f"rows{ending}")
    assert caught.value.filename == str(tmp_path / f"rows{ending}")
