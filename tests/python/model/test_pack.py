"""`vitro pack`, and experiments that name what it made."""
import json
import shutil

import pytest
import vitro
from conftest import ROOT

MODELS = ROOT / "configs" / "models" / "embedded"
REGLU = MODELS / "stories-reglu-3m.f16.gguf"
MOE = MODELS / "stories-moe-6m.f16.gguf"
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"


@pytest.mark.parametrize("args, part", [
    (["pack"], "MODEL.gguf and OUT.vpack"),
    (["pack", "m.gguf"], "--verify FILE.vpack"),
    (["pack", "m.gguf", "out", "--layout", "columns"], "bundles_two_phase, apart, apart_two_phase, rows, tiled"),
    (["pack", "nowhere.gguf", "out"], "nowhere.gguf: no such file"),
    (["pack", "--verify", "nowhere.vpack"], "nowhere.vpack: no such file"),
])
def test_bad_input_is_one_message(fake, args, part):
    answer = fake(*args)
    assert answer.code == 2 and not answer.out
    assert part in answer.err and answer.err.count("\n") == 1


def test_help_shows_examples(fake):
    answer = fake("pack", "--help")
    assert answer.code == 0 and "vitro pack --verify" in answer.out


@pytest.mark.parametrize("layout", ["rows", "tiled", "bundles", "bundles_two_phase"])
def test_says_what_lies_where(native, tmp_path, layout):
    answer = native("pack", REGLU, "m.vpack", "--layout", layout, "--verify", "--json")
    assert answer.code == 0, answer.err
    tensors = answer.json["tensors"]
    assert answer.json["verified"] and answer.json["bytes"] == (tmp_path / "m.vpack").stat().st_size
    ends = [tensor["offset"] + tensor["bytes"] for tensor in tensors]
    assert [tensor["offset"] for tensor in tensors[1:]] == ends[:-1]
    assert all(tensor["offset"] % 4096 == 0 and tensor["weight_bytes"] <= tensor["bytes"] for tensor in tensors)
    roles = {tensor["role"] for tensor in tensors}
    assert ("ffn_bundle" in roles) == layout.startswith("bundles")
    assert ("ffn_down" in roles) != layout.startswith("bundles")


def test_the_table_has_one_line_per_kind_of_tensor(native):
    answer = native("pack", MOE, "m.vpack", "--layout", "bundles")
    assert answer.code == 0, answer.err
    assert sum("ffn_bundle" in line for line in answer.out.splitlines()) == 1
    assert "padding" in answer.out


def test_a_run_on_a_named_pack_gives_the_same_tokens(native, tmp_path):
    assert native("pack", REGLU, "rows.vpack", "--layout", "rows").code == 0
    overrides = {"workload.output_tokens": 8, "model.gguf": str(REGLU)}
    expected = vitro.run(QUICKSTART, machine="host", overrides=overrides)
    found = vitro.run(QUICKSTART, machine="host", overrides=overrides | {"model.pack": str(tmp_path / "rows.vpack")})
    assert found.tokens == expected.tokens


def run_with(native, gguf, pack):
    return native("run", QUICKSTART, "--machine", "host", "--set", f"model.gguf={gguf}", "--set", f"model.pack={pack}")


def test_damaged_and_foreign_packs_are_refused(native, tmp_path):
    pack = tmp_path / "m.vpack"
    assert native("pack", REGLU, pack, "--layout", "rows").code == 0
    whole = pack.read_bytes()

    def refused(part, answer):
        assert answer.code == 2 and part in answer.err and answer.err.count("\n") == 1, answer.err

    middle = len(whole) // 2
    pack.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:])
    refused("is damaged between bytes", native("pack", "--verify", pack))
    refused("is damaged between bytes", run_with(native, REGLU, pack))
    pack.write_bytes(whole[:-1])
    refused("bytes long", native("pack", "--verify", pack))
    refused("bytes long", run_with(native, REGLU, pack))
    pack.write_bytes(whole)
    refused("made from another source", run_with(native, MOE, pack))
    assert run_with(native, REGLU, pack).code == 0
    changed = tmp_path / REGLU.name
    shutil.copyfile(REGLU, changed)  # the same bytes with another time: nobody knows that they are the same
    refused("made from another state", run_with(native, changed, pack))


def test_any_policy_reads_bundles(native):
    assert native("pack", REGLU, "b.vpack").code == native("pack", REGLU, "r.vpack", "--layout", "rows").code == 0
    runs = [native("run", QUICKSTART, "--machine", "host", "--set", f"model.gguf={REGLU}", "--set", f"model.pack={pack}", "--json").json
            for pack in ("b.vpack", "r.vpack")]
    assert runs[0]["tokens"] == runs[1]["tokens"] and len(runs[0]["tokens"]) > 10


def write_gpuidx(path, hot):
    """As PowerInfer's exporter: a GGUF file of int32 tensors under another magic."""
    gguf, numpy = pytest.importorskip("gguf"), pytest.importorskip("numpy")
    out = gguf.GGUFWriter(path, "generic.gpu_index")
    for layer, ids in enumerate(hot):
        index = numpy.zeros(ids["neurons"], dtype=numpy.int32)
        index[ids["hot"]] = 1
        out.add_tensor(f"blk.{layer}.gpu_idx", index)
        out.add_tensor(f"blk.{layer}.gpu_bucket", numpy.array(sorted(ids["hot"]), dtype=numpy.int32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    with open(path, "r+b") as file:
        file.write(b"PWRI")


def test_hot_neurons_come_first(native, tmp_path):
    plain = native("pack", REGLU, "plain.vpack", "--layout", "bundles", "--json").json
    bundles = [tensor for tensor in plain["tensors"] if tensor["role"] == "ffn_bundle"]
    neurons = bundles[0]["rows"]
    write_gpuidx(tmp_path / "m.gpuidx", [{"neurons": neurons, "hot": [7, neurons - 1]} for _ in bundles])
    answer = native("pack", REGLU, "hot.vpack", "--order", "m.gpuidx", "--verify", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["ordered"]

    def gate_row(name, report, place):
        tensor = next(tensor for tensor in report["tensors"] if tensor["role"] == "ffn_bundle")
        per_block, stride = tensor["bundles_per_block"], -(-2 * tensor["columns"] // 64) * 64 * 3
        at = tensor["offset"] + place // per_block * tensor["block_bytes"] + place % per_block * stride
        return (tmp_path / name).read_bytes()[at:at + 2 * tensor["columns"]]

    for place, neuron in enumerate([7, neurons - 1, 0, 1]):
        assert gate_row("hot.vpack", answer.json, place) == gate_row("plain.vpack", plain, neuron)
    answer = native("pack", REGLU, "hot.vpack", "--layout", "rows", "--order", "m.gpuidx")
    assert answer.code == 2 and "order of neurons" in answer.err
    answer = native("pack", REGLU, "hot.vpack", "--order", QUICKSTART)
    assert answer.code == 2 and "not a GGUF file" in answer.err


def test_the_report_is_json(native):
    answer = native("pack", MOE, "m.vpack", "--layout", "bundles_two_phase", "--json")
    bundle = next(tensor for tensor in json.loads(answer.out)["tensors"] if tensor["role"] == "ffn_bundle")
    assert bundle["experts"] > 1 and bundle["block_bytes"] % 4096 == 0
