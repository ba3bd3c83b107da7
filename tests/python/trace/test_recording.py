"""Recordings as arrays, and arrays as recordings."""
import numpy
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.trace.recordings import firing_statistics

MODEL = ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf"
SHAPE = {"format": "q4_0", "shape": {"family": "llama", "name": "small", "layers": 2, "width": 2048, "heads": 16, "kv_heads": 16,
                                     "ffn": 1024, "vocab": 128, "context": 64, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000,
                                     "predictor_rank": 64}}
REPLAY = {"experiment": "replay", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"), "model": SHAPE,
          "engine": {"policy": "neuron_cluster", "layout": "bundles", "units": ["cpu0"], "numerics": False},
          "memory": {"ffn_in_dram": "50%"},
          "workload": {"prompt_tokens": 4, "output_tokens": 6, "stop_at_eos": False}}


def active(seed, layers=2, tokens=12, neurons=1024, share=0.2):
    return numpy.random.default_rng(seed).random((layers, tokens, neurons)) < share


def test_arrays_come_back(native, tmp_path):
    fired = active(1)
    made = vitro.Recording.from_arrays(fired=fired, tokens=[3, 1, 4], first_position=2, about={"model": "mine"})
    found = vitro.Recording.load(made.save(tmp_path / "a.vtrc"))
    assert found.about == {"model": "mine"} and found.ffns == [(0, -1), (1, -1)] and repr(found) == repr(made)
    at, rows = found.fired(1)
    assert (rows == fired[1]).all() and at.tolist() == [[0, 2 + token] for token in range(12)]
    at, tokens = found.tokens()
    assert tokens.tolist() == [3, 1, 4] and at.tolist() == [[0, 2], [0, 3], [0, 4]]


def test_experts_come_back_with_their_tokens_alone(native, tmp_path):
    chosen = numpy.array([[[0, 2], [1, 0], [2, 1]]])
    weights = numpy.array([[[0.75, 0.25], [0.5, 0.5], [1, 0]]])
    fired = {(0, expert): active(expert, 1, 3, 32)[0] for expert in range(3)}
    made = vitro.Recording.from_arrays(fired=fired, experts=chosen, weights=weights)
    found = vitro.Recording.load(made.save(tmp_path / "e.vtrc"))
    at, ids, scores = found.experts(0)
    assert found.layers == [0] and (ids == chosen[0]).all() and (scores == weights[0]).all() and at[:, 1].tolist() == [0, 1, 2]
    at, rows = found.fired(0, 1)
    assert at[:, 1].tolist() == [1, 2] and (rows == fired[0, 1][[1, 2]]).all()


def test_a_run_replays_what_an_array_says(native, tmp_path):
    """Neurons that all fire cost reads; of those that never fire none is computed."""
    reads = {}
    for share in (0.05, 0.9):
        path = vitro.Recording.from_arrays(fired=active(7, share=share)).save(tmp_path / f"{share}.vtrc")
        found = vitro.run(REPLAY, overrides={"engine.replay": str(path)})
        reads[share] = found.metrics["flash_bytes_read"]["decode"] + found.metrics["flash_bytes_read"]["prefill"]
    assert reads[0.9] > 2 * reads[0.05] > 0


def test_a_run_and_its_recording_as_arrays_agree(native, tmp_path):
    experiment = {"experiment": "r", "machine": "sim", "device": REPLAY["device"], "model": str(MODEL),
                  "engine": {"policy": "neuron_cluster", "units": ["cpu0"], "record": str(tmp_path / "run.vtrc")},
                  "workload": {"prompt": "Once upon a time", "output_tokens": 6}}
    run = vitro.run(experiment)
    found = vitro.Recording.load(tmp_path / "run.vtrc")
    assert found.tokens()[1].tolist()[-len(run.tokens):] == run.tokens
    counted = firing_statistics(tmp_path / "run.vtrc", MODEL)  # from the file itself
    assert [(row["layer"], row["expert"]) for row in counted] == found.ffns
    for row in counted:
        active = found.fired(row["layer"], row["expert"])[1]
        assert (len(active), active.mean()) == (row["tokens"], pytest.approx(row["active"], rel=1e-9)) and 0 < active.mean() < 1
    again = vitro.Recording.load(found.save(tmp_path / "again.vtrc"))
    for layer, expert in found.ffns:
        assert (found.fired(layer, expert)[1] == again.fired(layer, expert)[1]).all()


@pytest.mark.parametrize("arrays, said", [
    ({"fired": numpy.zeros((2, 3))}, "expected bool .tokens, neurons"), ({"fired": numpy.full((1, 2, 3), 7)}, "expected bool"),
    ({"fired": {(40000, -1): numpy.zeros((2, 3), bool)}}, "layer: 40000"), ({"experts": [[1, 2]]}, "expected whole numbers"),
    ({"experts": [[[1, 1]]]}, "same expert twice"), ({"experts": [[[1, 70000]]]}, "from 1 to 70000"),
    ({"experts": [[[1, 2]]], "weights": [[[1.0]]]}, "weights: is of shape"),
    ({"experts": [[[1, 2]]], "weights": [[[1, float("nan")]]]}, "finite"),
    ({"fired": 3}, "fired: 3 .expected bool"), ({"fired": [[[1], [1, 0]]]}, "fired: .0, -1.: is no array"),
    ({"fired": [["a"]]}, "expected bool"), ({"fired": numpy.array(3)}, "expected bool"),
    ({"fired": {("a", 1): [[1]]}}, "fired: layer: 'a' .expected a whole number"),
    ({"fired": {(2, 0): [[1]]}, "experts": [[[0]]]}, "1 tokens of layer 2, expert 0 .*1 layers, 1 tokens"),
    ({"fired": {(0, 0): [[1], [1]]}, "experts": [[[0]]]}, "2 tokens of layer 0, expert 0"),
    ({"experts": 5}, "expected whole numbers"), ({"experts": [[[1], [1, 2]]]}, "experts: is no array"),
    ({"experts": [[[1, 2]]], "weights": "all"}, "weights: is no array"), ({"weights": [[[1.0]]]}, "expected experts as well"),
    ({"tokens": 5}, "expected whole numbers"), ({"tokens": "text"}, "expected whole numbers"), ({"tokens": [2 ** 31]}, "up to 2147483647"),
    ({"tokens": [1], "sequence": -1}, "sequence: -1 .expected 0 to"), ({"tokens": [1], "sequence": 0.5}, "sequence: 0.5 .expected a whole"),
    ({"tokens": [1], "first_position": -1}, "first_position: -1 .expected 0 to"), ({"tokens": [1, 2], "first_position": 2 ** 31 - 2},
                                                                                 "expected 0 to 2147483645"),
    ({"about": ["a"]}, "about: .*expected a map"), ({"about": {"a": 1}}, "about: .*expected a map"),
    ({"tokens": [0.5]}, "expected whole numbers"), ({"tokens": [-1]}, "0 or more")])
def test_arrays_that_do_not_fit_are_named(arrays, said):
    with pytest.raises(ConfigError, match=said):
        vitro.Recording.from_arrays(**arrays)


def test_arrays_that_a_file_asks_for_have_an_end(native, tmp_path):
    """A file may say that neurons up to 2^32 were looked at, and tokens may choose different numbers of experts."""
    tables = vitro.Recording.from_arrays(fired=active(1, neurons=8), experts=[[[0, 1], [1, 2]]])._tables
    wide = vitro.Recording({**tables, "fired": tables["fired"] | {"looked_at": numpy.full(24, 2 ** 32 - 1)}})
    wide = vitro.Recording.load(wide.save(tmp_path / "wide.vtrc"))
    with pytest.raises(ConfigError, match="12 rows of 4294967295 neurons of layer 0 are no array .expected up to 1048576 neurons"):
        wide.fired(0)
    long = vitro.Recording({**tables, "fired": tables["fired"] | {"keys": tables["fired"]["keys"].repeat(100, 0),
                                                                  "ends": numpy.arange(1, 2401), "ids": numpy.zeros(2400, "uint32"),
                                                                  "looked_at": numpy.full(2400, 2 ** 20)}})
    with pytest.raises(ConfigError, match="1073741824 cells"):
        long.fired(1)
    uneven = vitro.Recording({**tables, "experts": tables["experts"] | {"ends": numpy.array([1, 4])}})
    with pytest.raises(ConfigError, match="tokens of layer 0 chose 1 to 3 experts"):
        uneven.experts(0)


def test_what_is_no_recording_and_what_is_not_there_are_named(native, tmp_path):
    (tmp_path / "x").write_text("no recording")
    with pytest.raises(ConfigError, match="not a recording"):
        vitro.Recording.load(tmp_path / "x")
    with pytest.raises(ConfigError, match="no neurons of layer 5"):
        vitro.Recording.from_arrays(fired=active(1)).fired(5)
