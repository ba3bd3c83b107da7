"""Recordings of runs that asked no router ahead, replayed by parts that do: experts in flash, by default, and neurons of experts."""
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError

MODEL = ROOT / "configs" / "models" / "embedded" / "stories-moe-6m.f16.gguf"
DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"
TEXT = (MODEL.parent / "eval.txt").read_text()
EXPERT_BYTES = 590000  # at least one of it: six of the 24 experts or so have room
LOADS = [[1 / 8] * 8] * 3
SYSTEMS = {
    "experts": ({"policy": "dense", "threads": 2, "weights": {"kind": "experts", "experts": {"budget": f"{8 * EXPERT_BYTES} B"}}}, {}),
    "npumoe": ({"policy": "npumoe", "units": ["cpu0"], "placement": {"graph_units": ["npu"]},
                "ffn": {"experts": {"loads": LOADS, "overflow": "cpu", "graph_rows": 4, "group": 2, "cold": "50%"}},
                "weights": {"kind": "experts", "experts": {"budget": f"{14 * EXPERT_BYTES} B"}}}, {}),
    "neurons_ahead": ({"policy": "neuron_cluster", "units": ["cpu0"], "ffn": {"clusters": {"measure": True}},
                       "weights": {"kind": "bundles", "experts": {"neurons_ahead": "64 KiB"}}}, {"ffn_in_dram": "25%"})}
NEURONS = {"policy": "neuron_cluster", "units": ["cpu0"], "ffn": {"clusters": {"measure": True}}}
LOOKS = {"experts": "expert_cache", "npumoe": "expert_cache", "neurons_ahead": "neurons_ahead"}


def run(engine, memory=None, **overrides):
    given = {"experiment": "replay", "machine": "sim", "device": str(DEVICE), "model": {"gguf": str(MODEL)},
             "engine": {"prefill_chunk": 2, "prefill_order": "chunks"} | engine, "memory": memory or {},
             "workload": {"prompt": TEXT[2000:2060], "output_tokens": 8, "stop_at_eos": False}}
    return vitro.run(given, overrides={f"engine.{key}": value for key, value in overrides.items()})


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Of `dense`, of neurons that all are known, and the first one again from arrays."""
    folder = tmp_path_factory.mktemp("recordings")
    run(NEURONS, record=str(folder / "neurons"))
    tokens = run({"policy": "dense", "threads": 2}, record=str(folder / "dense"))["tokens"]
    found = vitro.Recording.load(folder / "dense")
    layers = [found.experts(layer) for layer in found.layers]
    vitro.Recording.from_arrays(experts=[ids for _, ids, _ in layers], weights=[weights for _, _, weights in layers]
                                ).save(folder / "arrays")
    return folder, tokens


@pytest.mark.parametrize("system, source", [("experts", "dense"), ("experts", "arrays"), ("npumoe", "dense"), ("npumoe", "arrays"),
                                            ("neurons_ahead", "neurons")])
@pytest.mark.parametrize("foresight", [None, "0%", "60%", "100%"])
def test_look_ahead_is_answered_where_no_router_was_asked(system, source, foresight, recordings):
    engine, memory = SYSTEMS[system]
    folder, tokens = recordings
    if foresight is not None:
        engine = engine | {"profile": {"expert_foresight": foresight}}
    found = run(engine, memory, replay=str(folder / source), function="replay")
    ahead, notes = found["metrics"][LOOKS[system]], [note for note in found["notes"] if note.startswith("replay: ")]
    assert source == "arrays" or found["tokens"] == tokens
    assert len(notes) == 1 and "the recording does not say" in notes[0]
    if foresight in (None, "0%"):
        assert ahead["look_ahead_recall"] is None and "no expert was read ahead" in notes[0]
        assert ahead["blocks" if system == "neurons_ahead" else "read_ahead"] == 0
    else:
        assert ahead["look_ahead_recall"] == pytest.approx(float(foresight[:-1]) / 100, abs=0.2) and foresight[:-1] + " %" in notes[0]
        assert ahead["blocks" if system == "neurons_ahead" else "read_ahead"] > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_run_with_look_ahead_recorded_is_replayed_without_a_note(system, tmp_path):
    engine, memory = SYSTEMS[system]
    first = run(engine, memory, record=str(tmp_path / "run"))
    again = run(engine, memory, replay=str(tmp_path / "run"), function="replay")
    assert again["tokens"] == first["tokens"] and not [note for note in again["notes"] if note.startswith("replay: ")]
    assert again["metrics"][LOOKS[system]] == first["metrics"][LOOKS[system]]
    assert 0.2 < first["metrics"][LOOKS[system]]["look_ahead_recall"] < 0.8


def test_a_choice_of_experts_is_there_once_however_often_a_router_was_asked(tmp_path):
    engine, memory = SYSTEMS["experts"]
    run(engine, memory, record=str(tmp_path / "ahead"))
    run({"policy": "dense", "threads": 2}, record=str(tmp_path / "dense"))
    ahead, dense = (vitro.Recording.load(tmp_path / name) for name in ("ahead", "dense"))
    assert ahead.layers == dense.layers
    for layer in dense.layers:
        for mine, its in zip(ahead.experts(layer), dense.experts(layer), strict=True):
            assert mine.shape == its.shape and (mine == its).all()
        if layer > 0:
            at, guessed, _ = ahead.foreseen(layer)
            truth = dense.experts(layer)[1]
            assert len(at) == len(truth) and 0.2 < sum(
                len(set(g) & set(t)) for g, t in zip(guessed, truth, strict=True)) / truth.size < 0.8
    with pytest.raises(ConfigError, match="no experts that were foreseen of layer 1"):
        dense.foreseen(1)
    assert repr(ahead).replace(f" and {2 * len(at)} foreseen", "") == repr(dense)
    again = vitro.Recording.load(ahead.save(tmp_path / "again"))
    replayed = [run(engine, memory, replay=str(tmp_path / name), function="replay") for name in ("ahead", "again")]
    assert replayed[0]["metrics"]["expert_cache"] == replayed[1]["metrics"]["expert_cache"]
