"""`vitro bench --record` and `--against`."""
import json
import random
import shutil

import pytest
import vitro
from conftest import ROOT
from vitro.commands import bench_record as records
from vitro.commands import bench_rounds


def row(*values, unit="tokens/s"):
    return {"unit": unit, "values": [*values]}


def verdict(before, now, paired=True, unit="tokens/s"):
    (found,) = records.compared({"a": row(*now, unit=unit)}, {"a": row(*before, unit=unit)}, paired)
    return found


def test_pairs_show_what_neighbours_hide():
    machine = [1.0, 0.4, 0.9, 0.5, 0.7, 0.6]  # what others leave of it, by round
    before, now = [100 * share for share in machine], [92 * share * bend for share, bend in zip(machine, (1, 1.01, 0.99, 1, 1.02, 0.98))]
    by_turns = verdict(before, now)
    assert by_turns.verdict == "slower" and by_turns.low < 0.92 < by_turns.high < 1
    assert verdict(before, now, paired=False).verdict == "as before"
    assert verdict(now, before).verdict == "faster"


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_hold_what_is_equal_in_nearly_all_cases(paired):
    draw, wrong = random.Random(1), 0
    for _ in range(400):
        before, now = ([draw.lognormvariate(3, 0.2) for _ in range(6)] for _ in range(2))
        wrong += verdict(before, now, paired).verdict != "as before"
    assert 4 <= wrong <= 36  # 5 % of 400 are 20


def test_of_counts_and_of_memory_less_is_better():
    assert verdict([100], [101], unit="events").verdict == "slower"
    assert verdict([100, 100], [100, 100], unit="events").verdict == "as before"
    assert verdict([100, 100, 100], [99, 99, 99], unit="posts").verdict == "faster"
    assert verdict([50.0, 50.2, 50.1], [60.0, 60.1, 60.2], unit="MiB").verdict == "slower"
    assert verdict([10.0], [5.0]).verdict == "as before"  # one measurement says nothing


def test_rows_of_one_side_alone_are_left_out():
    assert records.compared({"a": row(1.0), "b": row(1.0, unit="GB/s")}, {"b": row(1.0), "c": row(1.0)}, True) == []


@pytest.mark.all
def test_a_record_is_compared_with_its_own_build(native, tmp_path):
    """Here a copy of this one: both have the same counts, whatever the machine is like."""
    other = tmp_path / "other"
    shutil.copytree(ROOT / "python" / "vitro", other / "python" / "vitro", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("configs", "experiments"):
        (other / name).symlink_to(ROOT / name)
    kept = tmp_path / "before.json"
    answer = native("bench", "kernels", "--smoke", "--rounds", "1", "--record", kept, "--json")
    assert answer.code == 0, answer.err
    record = json.loads(kept.read_text())
    assert record["engine"]["sha256"] and record["host"]["cpu"] and record["kinds"] == ["kernels"] and "revision" in record
    record["engine"]["file"] = str(other / "python" / "vitro" / record["engine"]["file"].rsplit("/", 1)[1])
    kept.write_text(json.dumps(record))
    answer = native("bench", "kernels", "--smoke", "--rounds", "1", "--against", kept, "--json")
    assert answer.code == 0 and answer.json["by_turns"], answer.err
    assert "matmul q4_0, batch 4, weights used" in {each["name"] for each in answer.json["compared"]} & set(record["rows"])
    (other / "python" / "vitro" / record["engine"]["file"].rsplit("/", 1)[1]).write_bytes(b"another one")
    answer = native("bench", "kernels", "--smoke", "--rounds", "1", "--against", kept)
    assert answer.code == 0 and "not by turns, since its extension module is gone or has changed:" in answer.out
    assert native("bench", "kernels", "--against", kept).err.startswith(f"vitro: --against: {kept}: was recorded with --smoke")


@pytest.mark.parametrize("text, message", [
    ("", "can not be read"), ("{}", "is not a record of vitro bench"), ('{"schema": "vitro.bench_record/9"}', "is newer than this vitro"),
    ('{"schema": "vitro.bench_record/1", "engine": {}, "rows": {"a": {"unit": "s", "values": [0]}}}', "numbers above 0"),
    ('{"schema": "vitro.bench_record/1", "engine": {}, "rows": {"a": {"unit": "s", "values": [true]}}}', "numbers above 0"),
    ('{"schema": "vitro.bench_record/1", "engine": {}, "rows": {"a": 1}}', "rows: is not"),
    ('{"schema": "vitro.bench_record/1", "rows": {}}', "rows: is not"),
    ('{"schema": "vitro.bench_record/1", "engine": {}, "rows": {}, "kinds": "sim"}', "kinds: is no list of kinds"),
    ('{"schema": "vitro.bench_record/1", "engine": {}, "rows": {}, "kinds": []}', "kinds: is no list of kinds"),
    ('{"schema": "vitro.bench_record/1", "engine": {}, "rows": {}, "kinds": ["tea"]}', "kinds: is no list of kinds")])
def test_what_is_no_record_is_refused(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(vitro.ConfigError, match=message):
        records.read(tmp_path / "r.json")


def test_rounds_are_of_records(fake):
    answer = fake("bench", "kernels", "--rounds", "3")
    assert answer.code == 2 and "--rounds: can only be used with --record or --against" in answer.err


def test_of_a_record_only_its_kinds_are_measured(fake, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps({"schema": "vitro.bench_record/1", "engine": {}, "kinds": ["kernels"],
                                                 "rows": {"never measured": row(1.0)}}))
    answer = fake("bench", "sim", "--against", "r.json")
    assert answer.code == 2 and answer.err == "vitro: --against: r.json: has no rows of sim (expected kernels)\n"
    measured = []
    with pytest.raises(vitro.ConfigError, match="has no row that this build has"):
        bench_rounds.main([], False, 1, None, tmp_path / "r.json", lambda kind: measured.append(kind) or [], False)
    assert measured == ["kernels"]


def test_where_nothing_can_be_written_nothing_is_measured(fake, tmp_path):
    answer = fake("bench", "kernels", "--record", tmp_path)
    assert answer.code == 2 and "is a folder" in answer.err
