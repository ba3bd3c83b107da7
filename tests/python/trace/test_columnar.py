"""Recordings in Parquet: they come back, replay as the others do, and what is damaged is named."""
import json

import numpy
import pyarrow
import pytest
import vitro
from pyarrow import parquet
from test_recording import MODEL, REPLAY, active
from vitro.errors import ConfigError
from vitro.trace import columnar
from vitro.trace.recordings import firing_statistics

CHOSEN = numpy.array([[[0, 2], [1, 0], [2, 1]]] * 2)
MADE = {
    "dense": {"fired": active(1), "tokens": [3, 1, 4], "first_position": 2, "about": {"model": "größe"}},
    "experts": {"fired": {(0, expert): active(expert, 1, 3, 32)[0] for expert in range(3)}, "experts": CHOSEN},
    "experts alone": {"experts": CHOSEN, "sequence": 2 ** 31 - 1}, "tokens alone": {"tokens": [1, 2]}, "nothing": {},
    "silent": {"fired": numpy.zeros((2, 3, 8), bool)},
}


def same(one, two):
    return one["about"] == two["about"] and all(
        (numpy.asarray(one[part][name]) == numpy.asarray(cells)).all() and len(one[part][name]) == len(cells)
        for part in ("fired", "experts", "tokens") for name, cells in two[part].items())


@pytest.mark.parametrize("name", MADE)
def test_recordings_come_back_and_the_engine_reads_the_same(native, tmp_path, name, monkeypatch):
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    made = vitro.Recording.from_arrays(**MADE[name])
    file = made.save(tmp_path / "a.parquet")
    assert columnar.is_columnar(file)
    found = vitro.Recording.load(file)
    assert same(found._tables, made._tables) and repr(found) == repr(made)
    assert same(vitro.Recording.load(columnar.engine_file(str(file)))._tables, made._tables)


def test_it_is_made_into_the_engines_format_once_for_each_content(native, tmp_path, monkeypatch):
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.parquet"
    first = columnar.engine_file(str(vitro.Recording.from_arrays(fired=active(1)).save(path)))
    monkeypatch.setattr(columnar, "read", None)
    assert columnar.engine_file(str(path)) == first
    monkeypatch.undo()
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    assert columnar.engine_file(str(vitro.Recording.from_arrays(fired=active(2)).save(path))) != first


def test_a_run_replays_either_format_alike(native, tmp_path, monkeypatch):
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    recording, hashes = vitro.Recording.from_arrays(fired=active(7)), set()
    for name in ("a.vtrc", "a.parquet", "a.parquet"):
        result = vitro.run(REPLAY, overrides={"engine.replay": str(recording.save(tmp_path / name))})
        hashes.add(result.data["event_hash"])
        assert result.data["experiment_resolved"]["engine"]["replay"] == str(tmp_path / name)
    assert len(hashes) == 1


def test_all_that_reads_recordings_reads_either(native, tmp_path, monkeypatch):
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("Once upon a time there was a dog.")
    assert native("profile", MODEL, tmp_path / "text.txt", "-o", tmp_path / "a.vtrc").code == 0
    said = native("trace", "convert", tmp_path / "a.vtrc", tmp_path / "a.parquet")
    assert said.code == 0 and "rows of neurons" in said.out and "before" in said.out, said.err
    assert firing_statistics(tmp_path / "a.parquet", MODEL) == firing_statistics(tmp_path / "a.vtrc", MODEL)
    assert native("trace", "convert", tmp_path / "a.parquet", tmp_path / "b.vtrc").code == 0
    assert same(vitro.Recording.load(tmp_path / "b.vtrc")._tables, vitro.Recording.load(tmp_path / "a.vtrc")._tables)


def changed(tmp_path, change, about=None):
    path = vitro.Recording.from_arrays(fired=active(1, 1, 3, 16), experts=CHOSEN[:1]).save(tmp_path / "a.parquet")
    table = parquet.read_table(path)
    table = change(table)
    told = {key.encode(): value for key, value in (about or {}).items()}
    parquet.write_table(table.replace_schema_metadata(table.schema.metadata | told), path)
    return path


def with_column(table, name, values):
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pyarrow.array(values, table.schema.field(at).type))


def lists(table, name, change):
    values = table[name].to_pylist()
    change(values)
    return with_column(table, name, values)


@pytest.mark.parametrize("change, about, said", [
    (lambda table: table, {"format": "other"}, "is Parquet, and no recording"), (lambda table: table, {"version": "2"}, "of version 2"),
    (lambda table: table, {"about": "[1]"}, "no map from texts"), (lambda table: table, {"about": "{"}, "Expecting property name"),
    (lambda table: table.drop_columns(["token"]), None, "has other columns"),
    (lambda table: table.take(list(range(table.num_rows))[::-1]), None, "not together"),
    (lambda table: with_column(table, "layer", [None] * table.num_rows), None, "without a value"),
    (lambda table: lists(table, "ids", lambda rows: rows[0].reverse()), None, "do not ascend"),
    (lambda table: lists(table, "ids", lambda rows: rows[-1].append(7)), None, "do not fit"),
    (lambda table: lists(table, "weights", lambda rows: rows[0].append(7)), None, "do not fit"),
    (lambda table: lists(table, "ids", lambda rows: rows[3].append(70_000)), None, "do not fit|above 65535"),
], ids=["format", "version", "about", "no JSON", "columns", "order", "null", "order of neurons", "ids", "weights", "experts"])
def test_what_is_wrong_is_named(native, tmp_path, change, about, said):
    path = changed(tmp_path, change, about)
    with pytest.raises(ConfigError, match=f"a.parquet: is not a recording in Parquet: .*({said})"):
        vitro.Recording.load(path)


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1"], ids=["short", "noise"])
def test_a_run_names_a_damaged_file(native, tmp_path, data):
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(ConfigError, match="a.parquet: is not a recording in Parquet"):
        vitro.run(REPLAY, overrides={"engine.replay": str(tmp_path / "a.parquet")})


def test_one_that_can_not_be_replayed_is_kept_and_refused_by_a_run(native, tmp_path):
    made = vitro.Recording.from_arrays(fired=active(1))
    tables = made._tables | {"fired": made._tables["fired"] | {"looked_at": numpy.full(len(made._tables["fired"]["keys"]), -1)}}
    path = vitro.Recording(tables).save(tmp_path / "a.parquet")
    assert (vitro.Recording.load(path).fired(1)[1] == active(1)[1]).all()
    with pytest.raises(ConfigError, match="a.parquet: some neurons of the recording were not looked at"):
        vitro.run(REPLAY, overrides={"engine.replay": str(path)})


def test_a_notebook_reads_it_without_vitro(native, tmp_path):
    frame = parquet.read_table(vitro.Recording.from_arrays(**MADE["experts"]).save(tmp_path / "a.parquet")).to_pandas()
    assert set(frame["kind"]) == {"fired", "experts", "token"}
    row = frame[(frame["kind"] == "experts") & (frame["layer"] == 0) & (frame["position"] == 1)].iloc[0]
    assert row["ids"].tolist() == [1, 0] and row["weights"].tolist() == [0.5, 0.5]
    about = parquet.read_schema(tmp_path / "a.parquet").metadata[b"about"]
    assert json.loads(about) == {}
