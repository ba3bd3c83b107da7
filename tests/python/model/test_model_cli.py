"""vitro make-model and vitro profile, as a user calls them."""

import pytest
from conftest import ROOT

MODEL = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"


def test_a_model_is_made_and_its_sparsity_reported(native):
    answer = native("make-model", "made.gguf", "--preset", "tiny", "--json")
    assert answer.code == 0, answer.err
    assert (native.folder / "made.gguf").stat().st_size == answer.json["bytes"]
    assert answer.json["planted"]["active"] < 0.1 < answer.json["ffn_share"]
    assert [layer["layer"] for layer in answer.json["reached"]] == [0, 1]
    assert all(0.03 < layer["active"] < 0.3 for layer in answer.json["reached"])
    again = native("make-model", "again.gguf", "--preset", "tiny", "--no-check", "--json")
    assert "reached" not in again.json
    assert (native.folder / "again.gguf").read_bytes() == (native.folder / "made.gguf").read_bytes(), "one seed, one model"


@pytest.mark.parametrize("arguments, message", [(("--preset", "9b"), "tiny, 200m, 1.3b"), (("--active", "2"), "active")])
def test_wrong_models_are_refused_and_leave_nothing(native, arguments, message):
    answer = native("make-model", "made.gguf", *arguments)
    assert answer.code == 2 and message in answer.err
    assert not list(native.folder.glob("made.gguf*"))


def test_a_profile_says_what_fires_and_orders_a_pack(native):
    text = native.write("Once upon a time there was a little girl who loved the sea. " * 12, "text.txt")
    answer = native("profile", MODEL, text, "-o", "fired.vtrc", "--json")
    assert answer.code == 0, answer.err
    layers = answer.json["layers"]
    assert len(layers) == 4 and all(0 < layer["active"] < 1 and layer["tokens"] > 100 for layer in layers)
    assert all(layer["hot_share"] > 0.2 for layer in layers), "a fifth of the neurons does more than a fifth of the work"
    tokens = answer.json["tokens"]
    assert tokens["tokens"] == layers[0]["tokens"] and 0 < tokens["spread"] < 1 and 0 < tokens["fresh"] < 1
    packed = native("pack", MODEL, "hot.vpack", "--layout", "bundles", "--order", "fired.vtrc", "--verify", "--json")
    assert packed.code == 0, packed.err
    assert packed.json["ordered"] and packed.json["verified"]
    table = native("profile", MODEL, text, "-o", "fired.vtrc")
    assert "hottest fifth" in table.out


def test_a_text_without_tokens_leaves_no_recording(native):
    answer = native("profile", MODEL, native.write("", "text.txt"), "-o", "fired.vtrc")
    assert answer.code == 2 and "too short" in answer.err and not (native.folder / "fired.vtrc").exists()


OFFLOADED = ROOT / "experiments" / "benchmarks" / "offload_47b.yaml"


def test_a_drawn_workload_is_what_its_profile_says(native):
    answer = native("workload", OFFLOADED, "--json", "--tokens", "64", "--expert", "3")
    assert answer.code == 0, answer.err
    found = answer.json
    assert found["neurons"] == 14336
    assert found["fraction"] == pytest.approx(0.135, rel=0.1)
    assert found["coactivation"] == pytest.approx(0.8, abs=0.02)
    assert [row["sequences"] for row in found["batches"]][-1] == 128
    firing = [row["firing"] for row in found["batches"]]
    assert firing == sorted(firing) and firing[-1] > 0.99
    table = native("workload", OFFLOADED, "--tokens", "16")
    assert table.code == 0 and "co-activation" in table.out
    assert native("workload", OFFLOADED, "--expert", "8").code == 2
    assert not found["notes"] and "note:" not in table.out


def test_a_workload_with_weights_is_not_described_by_a_profile_that_nobody_named(native):
    """Real weights decide what fires: a default profile's numbers beside their name would be taken for theirs."""
    path = native.write(f"experiment: e\nmachine: host\nmodel: {{gguf: {MODEL}}}\nworkload: {{prompt: hi}}\n")
    answer = native("workload", path)
    assert answer.code == 2 and "exp.yaml:3: model: has weights" in answer.err and "vitro profile" in answer.err and not answer.out
    default = native("workload", path, "--set", "engine.function=draw", "--tokens", "16")
    assert default.code == 0 and "note: drawn from the default profile" in default.out
    own = native("workload", path, "--set", "engine.profile={fraction: 20%}", "--json", "--tokens", "16").json
    assert own["fraction"] == pytest.approx(0.2, rel=0.3) and "do not draw what fires" in own["notes"][0] and len(own["notes"]) == 1
