"""Recordings in vitro's own format against Parquet and Arrow IPC: bytes on disk, and processor time until their arrays are there.

    python experiments/validation/recording_formats.py A.vtrc B.vtrc --rounds 7

All forms give the tables that vitro.Recording has; the first of Parquet is what it saves, and checks what it reads. Formats take turns,
since the machine matters less to their ratio than to each. "bits": neurons as a fixed number of bits for each row, in place of their
numbers. The table in docs/guide/traces.md was made so.
"""
import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy
import pyarrow
import pyarrow.feather
import pyarrow.parquet
from vitro.base import native
from vitro.trace import columnar


def table_of(tables, bits):
    """One row for each key."""
    fired, experts, tokens = (tables[name] for name in ("fired", "experts", "tokens"))
    keys = numpy.concatenate([part["keys"] for part in (fired, experts, tokens)])
    counts = [len(part["keys"]) for part in (fired, experts, tokens)]
    kinds = numpy.repeat(numpy.arange(3, dtype="int8"), counts)
    columns = {"kind": kinds, **{name: keys[:, at].astype("int32") for at, name in enumerate(("layer", "expert", "sequence", "position"))}}
    columns["looked_at"] = numpy.concatenate([fired["looked_at"], numpy.zeros(sum(counts[1:]), "int64")])
    columns["token"] = numpy.concatenate([numpy.zeros(sum(counts[:2]), "int32"), tokens["ids"]])
    ends = numpy.concatenate([[0], fired["ends"], (fired["ends"][-1] if len(fired["ends"]) else 0) + experts["ends"]])
    ends = numpy.concatenate([ends, numpy.repeat(ends[-1], counts[2])])
    weights = numpy.concatenate([numpy.zeros(counts[0] + 1, "int64"), experts["ends"], numpy.repeat(len(experts["ids"]), counts[2])])
    columns["weights"] = pyarrow.ListArray.from_arrays(weights.astype("int32"), experts["weights"])
    if bits:
        width = int(fired["ids"].max(initial=0)) + 1
        active = numpy.zeros((len(keys), width), bool)
        rows = numpy.repeat(numpy.arange(counts[0]), numpy.diff(numpy.concatenate([[0], fired["ends"]])))
        active[rows, fired["ids"]] = True
        packed = numpy.packbits(active, axis=1)
        columns["active"] = pyarrow.FixedSizeBinaryArray.from_buffers(pyarrow.binary(packed.shape[1]), len(keys),
                                                                      [None, pyarrow.py_buffer(packed.tobytes())])
        none = numpy.zeros(counts[0] + 1, "int32")
        columns["ids"] = pyarrow.ListArray.from_arrays(numpy.concatenate([none, weights[counts[0] + 1:].astype("int32")]), experts["ids"])
    else:
        columns["ids"] = pyarrow.ListArray.from_arrays(ends.astype("int32"), numpy.concatenate([fired["ids"], experts["ids"]]))
    return pyarrow.table(columns)


def tables_of(table, bits):
    """-> what vitro.Recording has, but for `about`."""
    kinds = table["kind"].to_numpy()
    keys = numpy.stack([table[name].to_numpy() for name in ("layer", "expert", "sequence", "position")], axis=1).astype("int64")
    counts = numpy.bincount(kinds, minlength=3)
    ids = table["ids"].combine_chunks()
    ends, values = ids.offsets.to_numpy()[1:].astype("int64"), ids.flatten().to_numpy()
    first, second = counts[0], counts[0] + counts[1]
    weights = table["weights"].combine_chunks().flatten().to_numpy()
    found = {"fired": {"keys": keys[:first], "looked_at": table["looked_at"].to_numpy()[:first]}, "experts": {"keys": keys[first:second]},
             "tokens": {"keys": keys[second:], "ids": table["token"].to_numpy()[second:]}}
    if bits:
        active = table["active"].combine_chunks()
        packed = numpy.frombuffer(active.buffers()[1], "uint8").reshape(len(keys), -1)[:first]
        rows, found["fired"]["ids"] = numpy.nonzero(numpy.unpackbits(packed, axis=1))
        found["fired"]["ends"] = numpy.cumsum(numpy.bincount(rows, minlength=first))
        of_experts = 0
    else:
        of_experts = ends[first - 1] if first else 0
        found["fired"] |= {"ends": ends[:first], "ids": values[:of_experts]}
    found["experts"] |= {"ends": ends[first:second] - of_experts, "ids": values[of_experts:], "weights": weights}
    return found


FORMS = {
    "vitro": (None, lambda path: native.call("recording_arrays", str(path))),
    "Parquet, numbers, zstd": (columnar.write, columnar.read),
    "Parquet, bits, zstd": (
        lambda tables, path: pyarrow.parquet.write_table(table_of(tables, True), path, compression="zstd", use_dictionary=False),
        lambda path: tables_of(pyarrow.parquet.read_table(path), True)),
    "Arrow IPC, numbers, zstd": (
        lambda tables, path: pyarrow.feather.write_feather(table_of(tables, False), str(path), compression="zstd"),
        lambda path: tables_of(pyarrow.feather.read_table(str(path)), False)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    pyarrow.set_cpu_count(1)
    for file in asked.files:
        tables = native.call("recording_arrays", str(file))
        counts = {name: len(tables[name]["keys"]) for name in ("fired", "experts", "tokens")}
        print(f"{file}: {counts}, {len(tables['fired']['ids'])} neurons", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            paths, spent = {}, {name: [] for name in FORMS}
            for at, (name, (write, _)) in enumerate(FORMS.items()):
                paths[name] = Path(folder) / str(at) if write else file
                if write:
                    write(tables, paths[name])
            for turn in range(asked.rounds):
                for name, (_, read) in FORMS.items():
                    began = time.process_time()
                    found = read(paths[name])
                    spent[name].append(time.process_time() - began)
                    if turn == 0:
                        for part, columns in found.items():
                            for column, cells in columns.items() if part != "about" else ():
                                assert (numpy.asarray(cells) == tables[part][column]).all(), (name, part, column)
            for name, times in spent.items():
                print(f"  {name}: {paths[name].stat().st_size / 1e6:.2f} MB, {1e3 * statistics.median(times):.0f} ms "
                      f"({1e3 * min(times):.0f} to {1e3 * max(times):.0f})")


if __name__ == "__main__":
    main()
