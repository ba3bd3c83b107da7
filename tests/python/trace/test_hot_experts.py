"""Overlap@K of hot experts: of a recording's halves, and of two recordings."""
import numpy
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.trace import hot_experts

EMBEDDED = ROOT / "configs/models/embedded"


@pytest.mark.parametrize("k, share", [(1, 0), (2, 0.5), (3, 2 / 3), (4, 1)])
def test_of_equals_the_lower_id_is_hot(k, share):
    one, other = numpy.array([[5, 5, 1, 0]] * 2), numpy.array([[1, 9, 2, 2]] * 2)
    assert hot_experts.overlap(one, other, k) == pytest.approx([share] * 2)


def recorded(*layers, weights=None):
    """Of the two experts that each token of each layer chose, in order of positions."""
    return vitro.Recording.from_arrays(experts=numpy.array(layers), weights=weights)


A = recorded([[0, 1]] * 4 + [[0, 2]] * 4, [[3, 4]] * 8)
B = recorded([[0, 1]] * 8, [[1, 5]] * 8)


def test_halves_of_a_recording_are_told_apart():
    ((tokens, (first, second)),) = hot_experts.loads(A).items()
    assert tokens == hot_experts.ALL, "arrays do not say what was generated"
    assert first.tolist() == [[4, 4, 0, 0, 0], [0, 0, 0, 4, 4]] and second.tolist() == [[4, 0, 4, 0, 0], [0, 0, 0, 4, 4]]


def test_each_recording_is_asked_about_its_rest_and_each_two_about_each_other():
    frame = hot_experts.overlaps({"a": A, "b": B}).set_index(["calibrated_on", "asked_on", "k"])
    assert sorted(set(frame.index.get_level_values("k"))) == [1, 2, 4] and len(frame) == 3 * 3
    unseen, other = frame.loc["a", "a", 2], frame.loc["a", "b", 2]
    assert (unseen["mean"], unseen["median"], unseen["least"], unseen["kind"]) == (0.75, 0.75, 0.5, hot_experts.UNSEEN)
    assert (other["mean"], other["least"], other["kind"]) == (0.5, 0, hot_experts.OTHER), "0, 1 of 0, 1 (of equals the lower); 1, 5 of 3, 4"
    assert frame.loc["b", "b", 1]["mean"] == 1 and other["chance"] == pytest.approx(2 / 6)


def generating(prompt, *layers):
    """As recorded(), of a run whose prompt has so many tokens."""
    made = vitro.Recording.from_arrays(experts=numpy.array(layers), about={"tokens": "drawn by the run"})
    tables = made._tables
    drawn = tables["tokens"]["keys"][:, 3] >= prompt - 1
    return vitro.Recording(tables | {"tokens": {name: values[drawn] for name, values in tables["tokens"].items()}})


def test_a_prompt_and_what_was_generated_are_told_apart():
    a = generating(4, [[0, 1]] * 4 + [[2, 3]] * 2, [[4, 5]] * 4 + [[4, 5]] * 2)
    b = generating(2, [[0, 1]] * 2 + [[0, 3]] * 8, [[6, 7]] * 2 + [[4, 5]] * 8)
    loads = hot_experts.loads(a)
    assert [half.sum(axis=1).tolist() for half in loads[hot_experts.PROMPT]] == [[4, 4], [4, 4]]
    assert loads[hot_experts.GENERATED][0].tolist() == [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
    frame = hot_experts.overlaps({"a": a, "b": b}).set_index(["calibrated_on", "asked_on", "kind", "tokens", "k"])["mean"]
    assert frame["a", "b", hot_experts.OTHER, hot_experts.PROMPT, 2] == 0.5, "0, 1 of 0, 1; none of 4, 5"
    assert frame["a", "b", hot_experts.OTHER, hot_experts.GENERATED, 2] == 0.75, "3 of 2, 3; 4, 5 of 4, 5"
    assert frame["a", "a", hot_experts.DECODED, hot_experts.GENERATED, 2] == 0.5, "none of 0, 1; 4, 5 of 4, 5"
    with_arrays = hot_experts.overlaps({"a": a, "c": A})
    assert set(with_arrays[with_arrays["asked_on"] == "c"]["tokens"]) == {hot_experts.ALL}


@pytest.mark.parametrize("chunk", [None, 8])
def test_a_run_says_which_tokens_it_generated(chunk, native, tmp_path):
    overrides = {"engine.record": str(tmp_path / "a.vtrc"), "engine.prefill_chunk": chunk, "workload.output_tokens": 6,
                 "workload.sampling": {"temperature": 1}, "workload.batch": 2, "workload.stop_at_eos": False,
                 "workload.requests": [{"prompt": "Once upon a time there was a dog and a cat"}, {"prompt": "The cat"}]}
    vitro.run({"experiment": "tokens", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"),
               "model": {"gguf": str(EMBEDDED / "stories-moe-6m.f16.gguf")}, "engine": {"policy": "dense"},
               "workload": {"prompt": "x"}}, overrides={key: value for key, value in overrides.items() if value is not None})
    recording = vitro.Recording.load(tmp_path / "a.vtrc")
    recording.save(tmp_path / "a.parquet")
    at, _, _ = recording.experts(0)
    generated = recording.generated(at)
    # Of each request both sequences compute 5 tokens behind the 6 that they draw; the prompt is computed once.
    assert generated.sum() == 2 * 2 * 5 and len(numpy.unique(at[generated][:, 0])) == 4
    assert (~generated).sum() > 10 and (at[~generated][:, 1] < 14).all()
    assert (vitro.Recording.load(tmp_path / "a.parquet").generated(at) == generated).all()


@pytest.mark.parametrize("given, said", [
    ({"a": A, "b": recorded([[0, 1]] * 2)}, "b: has 1 layers of experts .expected 2, as a has"),
    ({"c": vitro.Recording.from_arrays(fired=numpy.ones((1, 2, 3), bool))}, "c: has no experts"),
    ({"c": recorded([[0, 1]])}, "c: has one token")], ids=["layers", "dense", "one token"])
def test_what_can_not_be_compared_is_named(given, said):
    with pytest.raises(ConfigError, match=said):
        hot_experts.overlaps(given)


def test_the_command_prints_and_refuses(native, tmp_path):
    model, text = EMBEDDED / "stories-moe-6m.f16.gguf", (EMBEDDED / "eval.txt").read_text()
    for name, part in (("story", text[:3000]), ("licence", (ROOT / "LICENSE").read_text()[:3000])):
        (tmp_path / f"{name}.txt").write_text(part)
        assert native("profile", model, f"{name}.txt", "-o", f"{name}.vtrc").code == 0
    told = native("trace", "experts", "story.vtrc", "licence.vtrc", "--json")
    assert told.code == 0, told.err
    rows = {(row["calibrated_on"], row["asked_on"], row["k"]): row for row in told.json["rows"]}
    assert {key[2] for key in rows} == {1, 2, 4} and rows["story.vtrc", "licence.vtrc", 2]["chance"] == 0.25 and len(rows) == 9
    assert rows["story.vtrc", "story.vtrc", 4]["mean"] > rows["story.vtrc", "licence.vtrc", 4]["mean"]
    (tmp_path / "bad.vtrc").write_bytes(b"no recording")
    refused = native("trace", "experts", "bad.vtrc")
    assert refused.code == 2 and "bad.vtrc" in refused.err
