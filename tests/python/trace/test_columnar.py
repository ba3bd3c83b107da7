"""Recordings in Parquet: they come back, replay as the others do, and what is damaged is named."""
import json
import types

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


def test_what_is_made_is_of_the_bytes_that_were_read(native, tmp_path, monkeypatch):
    """Another process writes the file again after its content has been looked up."""
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    path = vitro.Recording.from_arrays(fired=active(1)).save(tmp_path / "a.parquet")
    before, of_file = columnar.fingerprints.of_file(path), columnar.fingerprints.of_file

    def written_again(name):
        found = of_file(name)
        vitro.Recording.from_arrays(fired=active(2)).save(path)
        return found
    monkeypatch.setattr(columnar.fingerprints, "of_file", written_again)
    made = columnar.engine_file(str(path))
    assert before not in made and of_file(path) in made
    assert same(vitro.Recording.load(made)._tables, vitro.Recording.from_arrays(fired=active(2))._tables)


def test_files_of_another_version_are_made_anew(native, tmp_path, monkeypatch):
    monkeypatch.setenv("VITRO_CACHE", str(tmp_path / "cache"))
    path = str(vitro.Recording.from_arrays(fired=active(1)).save(tmp_path / "a.parquet"))
    first = columnar.engine_file(path)
    monkeypatch.setattr(columnar, "_MADE", columnar._MADE + 1)
    assert columnar.engine_file(path) != first


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


def of_type(table, name, kind):
    at = table.schema.get_field_index(name)
    return table.set_column(at, pyarrow.field(name, kind), table[name].cast(kind))


def cell(table, name, row, value):
    values = table[name].to_pylist()
    values[row] = value
    return with_column(table, name, values)


def renamed(table, kind, other):
    kinds = [other if name == kind else name for name in table["kind"].to_pylist()]
    return table.set_column(0, table.schema.field(0), pyarrow.array(kinds).dictionary_encode().cast(table.schema.field(0).type))


@pytest.mark.parametrize("change, about, said", [
    (lambda table: table, {"format": "other"}, "is Parquet, and no recording"), (lambda table: table, {"version": "2"}, "of version 2"),
    (lambda table: table, {"about": "[1]"}, "no map from texts"), (lambda table: table, {"about": "{"}, "Expecting property name"),
    (lambda table: table.drop_columns(["token"]), None, "has no further column where column `token` of int32 is expected"),
    (lambda table: table.append_column("more", table["token"]), None, "has column `more` of int32 where no further column is expected"),
    (lambda table: of_type(table, "position", pyarrow.int64()), None,
     "has column `position` of int64 where column `position` of uint32 is expected"),
    (lambda table: of_type(table, "ids", pyarrow.list_(pyarrow.uint32())), None,
     "column `ids` of list<[^>]*> where column `ids` of large_list<"),
    (lambda table: renamed(table, "experts", "expert"), None, "has rows of kind 'expert' .expected one of: fired, experts, token"),
    (lambda table: cell(table, "position", 1, 0), None, "two rows of layer 0, expert -1, sequence 0, position 0 of a kind"),
    (lambda table: cell(table, "position", 5, 0), None, "two rows of layer 0, expert -1, sequence 0, position 0 of a kind"),
    (lambda table: cell(table, "layer", 4, -2), None, "a layer or an expert below -1"),
    (lambda table: cell(table, "expert", 0, -2), None, "a layer or an expert below -1"),
    (lambda table: cell(table, "looked_at", 0, -2), None, "looked_at is no number of neurons"),
    (lambda table: cell(table, "looked_at", 2, 2 ** 32), None, "looked_at is no number of neurons"),
    (lambda table: cell(table, "looked_at", 1, max(table["ids"][1].as_py())), None, "neurons beyond those that were looked at"),
    (lambda table: lists(table, "ids", lambda rows: rows[2].append(16)), None, "neurons beyond those that were looked at"),
    (lambda table: table.take(list(range(table.num_rows))[::-1]), None, "not together"),
    (lambda table: with_column(table, "layer", [None] * table.num_rows), None, "without a value"),
    (lambda table: lists(table, "ids", lambda rows: rows[0].reverse()), None, "do not ascend"),
    (lambda table: lists(table, "ids", lambda rows: rows[-1].append(7)), None, "do not fit"),
    (lambda table: lists(table, "weights", lambda rows: rows[0].append(7)), None, "do not fit"),
    (lambda table: lists(table, "ids", lambda rows: rows[3].__setitem__(0, 70_000)), None, "experts above 65535"),
], ids=["format", "version", "about", "no JSON", "a column less", "a column more", "type", "lists", "kind", "key", "key of experts",
        "layer", "expert", "looked at less than nothing", "looked at too many", "beyond looked at", "last beyond", "order", "null",
        "order of neurons", "ids", "weights", "experts"])
def test_what_is_wrong_is_named(native, tmp_path, change, about, said):
    path = changed(tmp_path, change, about)
    with pytest.raises(ConfigError, match=f"a.parquet: is not a recording in Parquet: .*({said})"):
        vitro.Recording.load(path)


def test_a_neuron_that_is_not_known_to_be_looked_at_may_be_any(native, tmp_path):
    assert len(vitro.Recording.load(changed(tmp_path, lambda table: cell(table, "looked_at", 1, -1))).fired(0)[0]) == 3


@pytest.mark.parametrize("rows, values, memory, said", [
    (10 ** 9, 1, 0, "declares 1000000000 rows in"), (10, 10 ** 12, 0, "declares 4000000000000 bytes of rows"), (10 ** 6, 10 ** 7, 0, None),
    (10, 10 ** 8, 1 << 30, None), (10, 10 ** 8, 0, "declares 400000000 bytes of rows")])
def test_what_a_file_declares_is_looked_at_first(native, tmp_path, monkeypatch, rows, values, memory, said):
    path = vitro.Recording.from_arrays(fired=active(1)).save(tmp_path / "a.parquet")
    column = types.SimpleNamespace(num_values=values)
    group = types.SimpleNamespace(total_byte_size=1, num_columns=1, column=lambda at: column)
    declared = types.SimpleNamespace(num_rows=rows, num_row_groups=1, row_group=lambda at: group)
    monkeypatch.setattr(columnar.parquet.ParquetFile, "metadata", declared)
    monkeypatch.setattr(columnar, "_memory", lambda: memory)
    if said is None:
        vitro.Recording.load(path)
        return
    monkeypatch.setattr(columnar.parquet.ParquetFile, "read", None)
    with pytest.raises(ConfigError, match=f"a.parquet: is not a recording in Parquet: {said}"):
        vitro.Recording.load(path)


def test_many_equal_rows_in_few_bytes_are_refused(native, tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "_LITTLE", 0)
    table = parquet.read_table(vitro.Recording.from_arrays(tokens=[1]).save(tmp_path / "a.parquet"))
    many = table.take(numpy.zeros(400_000, "int32"))
    parquet.write_table(many, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 30_000
    with pytest.raises(ConfigError, match="a.parquet: is not a recording in Parquet: declares 400000 rows in"):
        vitro.Recording.load(tmp_path / "a.parquet")


def test_where_memory_ends_that_is_said(native, tmp_path, monkeypatch):
    path = vitro.Recording.from_arrays(fired=active(1)).save(tmp_path / "a.parquet")

    def read(file):
        raise MemoryError
    monkeypatch.setattr(columnar.parquet.ParquetFile, "read", read)
    with pytest.raises(ConfigError, match="a.parquet: does not fit into memory"):
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
