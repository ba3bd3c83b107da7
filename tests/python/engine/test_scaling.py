"""Test-time scaling from the outside: experiment keys, results, a Python judge, the command line."""
import json
import math
from collections import Counter

import numpy as np
import oracle
import pytest
import vitro
from conftest import ROOT
from vitro.model.make import make_model, spec_with
from vitro.trace import hot_experts

STORIES = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"
MIXTURE = ROOT / "configs" / "models" / "embedded" / "stories-moe-6m.f16.gguf"
ONEPLUS12 = ROOT / "configs" / "devices" / "oneplus12.yaml"


def experiment(scaling, **workload):
    return {"experiment": "scaled", "machine": "host", "model": {"gguf": str(STORIES)}, "engine": {"threads": 1},
            "workload": {"prompt": "Once upon a time", "output_tokens": 20, "sampling": {"temperature": 1}, "scaling": scaling, **workload}}


BEST_OF_4 = {"method": "best_of_n", "samples": 4}


def test_log_probabilities_are_those_of_the_oracle(native, tmp_path):
    model = oracle.random_model(oracle.Shape(), seed=5)
    oracle.write_gguf(model, tmp_path / "m.gguf")
    scaled = experiment(BEST_OF_4, prompt="The quick", output_tokens=6, stop_at_eos=False)
    scaled["model"] = {"gguf": str(tmp_path / "m.gguf")}
    prompt = [1] + oracle.tokenize("The quick")
    for sample in vitro.run(scaled)["scaling"]["samples"]:
        rows = oracle.logits(model, prompt + sample["tokens"])[len(prompt) - 1:-1]
        chosen = rows[np.arange(6), sample["tokens"]]
        expected = (chosen - np.log(np.exp(rows).sum(-1))).sum()
        assert sample["log_probability"] == pytest.approx(expected, abs=1e-3)
        assert sample["score"] == pytest.approx(expected / 6, abs=2e-4)


def test_the_chosen_sample_is_the_answer(native):
    result = vitro.run(experiment(BEST_OF_4))
    scaling = result["scaling"]
    best = max(scaling["samples"], key=lambda sample: sample["score"])
    assert scaling["samples"][scaling["chosen"]] == best
    assert (result.tokens, result.text) == (best["tokens"], best["text"])
    assert result.metric("scaling.generated_tokens") >= sum(len(sample["tokens"]) for sample in scaling["samples"])
    assert result.metric("scaling.latency_ms") > 0 and result.metric("scaling.rounds") == 1
    assert "sequences" not in result


def test_samples_are_the_sequences_of_a_plain_batch(native):
    plain = experiment(None, batch=4)
    del plain["workload"]["scaling"]
    assert vitro.run(plain)["sequences"] == [sample["tokens"] for sample in vitro.run(experiment(BEST_OF_4))["scaling"]["samples"]]


@pytest.mark.parametrize("scaling", [
    BEST_OF_4 | {"scorer": {"kind": "regex", "patterns": ["girl", "happy"]}},
    {"method": "beam_search", "samples": 4, "width": 2, "step": {"until": ".", "max_tokens": 6}},
    {"method": "self_consistency", "samples": 4, "answer": "was (a|the) "},
    BEST_OF_4 | {"scorer": {"kind": "model", "gguf": str(MIXTURE), "token": "He", "against": "She"}},
], ids=lambda s: s.get("scorer", {}).get("kind", s["method"]))
def test_the_simulated_phone_chooses_as_the_host_does(native, scaling):
    host = vitro.run(experiment(scaling))
    sim = vitro.run(experiment(scaling) | {"device": str(ONEPLUS12)}, machine="sim", overrides={"engine.threads": 2})
    again = vitro.run(experiment(scaling) | {"device": str(ONEPLUS12)}, machine="sim", overrides={"engine.threads": 2})
    assert [s["tokens"] for s in sim["scaling"]["samples"]] == [s["tokens"] for s in host["scaling"]["samples"]]
    assert [s["score"] for s in sim["scaling"]["samples"]] == pytest.approx([s["score"] for s in host["scaling"]["samples"]])
    assert sim.tokens == host.tokens
    assert sim["event_hash"] == again["event_hash"] and sim["scaling"] == again["scaling"]
    # A reward model is the one judge that takes the machine's time.
    assert (sim.metric("scaling.scoring_ms") > 0) == (scaling.get("scorer", {}).get("kind") == "model")


def test_votes_are_counted(native):
    scaling = vitro.run(experiment({"method": "self_consistency", "samples": 8, "answer": "(girl|boy|dog)"}, output_tokens=40))["scaling"]
    votes = Counter(sample["answer"] for sample in scaling["samples"] if sample["answer"])
    assert scaling["votes"] == dict(votes)
    assert votes[scaling["answer"]] == max(votes.values())


def test_shapes_alone_scale_with_drawn_scores(native):
    shapes = {"format": "q4_0", "shape": {"layers": 2, "width": 256, "heads": 4, "ffn": 512, "vocab": 512, "context": 128}}
    drawn = experiment({"method": "beam_search", "samples": 8, "width": 2, "step": {"max_tokens": 5}}, prompt=None, prompt_tokens=8)
    del drawn["workload"]["prompt"]
    drawn |= {"machine": "sim", "device": str(ONEPLUS12), "model": shapes, "engine": {"numerics": False}}
    result = vitro.run(drawn)
    assert [len(sample["tokens"]) for sample in result["scaling"]["samples"]] == [20, 20]
    assert result.metric("scaling.rounds") == 4
    assert result.metric("scaling.generated_tokens") == 8 * 20  # eight at every step, also those of beams that were given up
    with pytest.raises(vitro.ConfigError, match="expected drawn, or model"):
        vitro.run(drawn, overrides={"workload.scaling.scorer": {"kind": "log_probability"}})


@pytest.mark.parametrize("kind", ["shape", "gguf"])
def test_a_judge_beside_shapes_is_priced_and_chooses_as_drawn_scores_do(native, kind):
    shapes = {"format": "q4_0", "shape": {"layers": 2, "width": 256, "heads": 4, "ffn": 512, "vocab": 512, "context": 128}}
    scaling = {"method": "beam_search", "samples": 4, "width": 2, "step": {"max_tokens": 5}}
    drawn = experiment(scaling, prompt_tokens=8)
    del drawn["workload"]["prompt"]
    drawn |= {"machine": "sim", "device": str(ONEPLUS12), "model": shapes, "engine": {"numerics": False}}
    judge = {"shape": {"layers": 1, "width": 128, "heads": 4, "ffn": 256, "vocab": 300, "context": 64}}
    if kind == "gguf":
        judge = {"gguf": str(MIXTURE), "token": "He"}
    alone, judged = vitro.run(drawn), vitro.run(drawn, overrides={"workload.scaling.scorer": {"kind": "model"} | judge})
    assert judged["tokens"] == alone["tokens"]
    assert [s["score"] for s in judged["scaling"]["samples"]] == [s["score"] for s in alone["scaling"]["samples"]]
    # The prompt once, and in each of four rounds what was added to four texts.
    assert judged.metric("scaling.scoring_rows") == 8 + 4 * 4 * 5
    assert judged.metric("scaling.latency_ms") > alone.metric("scaling.latency_ms")
    assert judged["event_hash"] == vitro.run(drawn, overrides={"workload.scaling.scorer": {"kind": "model"} | judge})["event_hash"]


def test_a_judge_of_shapes_is_read_from_a_file_beside_the_experiment(native, tmp_path):
    (tmp_path / "judge.yaml").write_text("format: q8_0\nshape: {layers: 1, width: 128, heads: 4, ffn: 256, vocab: 300, context: 64}\n")
    drawn = experiment(BEST_OF_4 | {"scorer": {"kind": "model", "shape": "judge.yaml"}})
    drawn |= {"machine": "sim", "device": str(ONEPLUS12), "engine": {"numerics": False}}
    (tmp_path / "e.yaml").write_text(json.dumps(drawn))
    assert vitro.run(tmp_path / "e.yaml").metric("scaling.scoring_rows") > 0
    for engine, scorer, says in (({}, {}, "has no weights, and engine.function computes values"),
                                 ({"numerics": False}, {"gguf": "a.gguf"}, "can not be combined with gguf"),
                                 ({"numerics": False}, {"suffix": " so"}, "is text, and a model of shapes has no tokenizer")):
        drawn["engine"] = engine
        drawn["workload"]["scaling"]["scorer"] = {"kind": "model", "shape": str(tmp_path / "judge.yaml")} | scorer
        with pytest.raises(vitro.ConfigError, match=says):
            vitro.run(drawn)


def test_a_mistake_in_the_shapes_of_a_judge_is_reported_under_its_own_key(native, tmp_path):
    shape = {"layers": 0, "width": 128, "heads": 4, "ffn": 256, "vocab": 300, "context": 64}
    (tmp_path / "judge.yaml").write_text(json.dumps({"shape": shape}))
    for given, key in ((shape, "shape.layers"), (str(tmp_path / "judge.yaml"), "shape.shape.layers")):
        drawn = experiment(BEST_OF_4 | {"scorer": {"kind": "model", "shape": given}})
        drawn |= {"machine": "sim", "device": str(ONEPLUS12), "engine": {"numerics": False}}
        with pytest.raises(vitro.ConfigError) as error:
            vitro.run(drawn)
        assert f"workload.scaling.scorer.{key}: " in str(error.value)


def test_a_recording_tells_a_judge_from_the_model_and_is_replayed_beside_one(native, tmp_path):
    """Both are mixtures: the routers of both are asked, and both ask the recording in the second run."""
    scored = experiment(BEST_OF_4 | {"scorer": {"kind": "model", "gguf": str(MIXTURE), "token": "He"}}, output_tokens=6)
    scored["model"] = {"gguf": str(MIXTURE)}
    recorded = vitro.run(scored, overrides={"engine.record": str(tmp_path / "r.vtrc")})
    assert recorded.tokens == vitro.run(scored).tokens
    replayed = vitro.run(scored, overrides={"engine.function": "replay", "engine.replay": str(tmp_path / "r.vtrc")})
    assert [s["tokens"] for s in replayed["scaling"]["samples"]] == [s["tokens"] for s in recorded["scaling"]["samples"]]
    assert replayed.metric("scaling.scoring_rows") == recorded.metric("scaling.scoring_rows")
    alone = vitro.run(scored, overrides={"engine.record": str(tmp_path / "alone.vtrc"), "workload.scaling.scorer": {"kind": "drawn"}})
    judged, plain = (vitro.Recording.load(tmp_path / name) for name in ("r.vtrc", "alone.vtrc"))
    assert len(alone["scaling"]["samples"]) == 4
    of_judge = [at for at in judged.experts(0)[0].tolist() if at[0] >= 2 ** 31]
    assert len(of_judge) == recorded.metric("scaling.scoring_rows")
    assert len(judged.experts(0)[0]) - len(of_judge) == len(plain.experts(0)[0])
    with_judge, without = hot_experts.loads(judged), hot_experts.loads(plain)
    assert list(with_judge) == list(without) == [hot_experts.ALL, hot_experts.PROMPT, hot_experts.GENERATED]
    assert all((one == other).all() for tokens in without for one, other in zip(with_judge[tokens], without[tokens]))


def test_a_reward_model_reads_drawn_tokens_as_the_text_that_they_are(native):
    judged = BEST_OF_4 | {"scorer": {"kind": "model", "gguf": str(MIXTURE), "token": "He", "against": "She"}}
    drawn = experiment(judged, prompt_tokens=6)
    del drawn["workload"]["prompt"]
    found = {machine: vitro.run(drawn | {"machine": machine} | ({"device": str(ONEPLUS12)} if machine == "sim" else {}))["scaling"]
             for machine in ("host", "sim")}
    scores = [sample["score"] for sample in found["host"]["samples"]]
    assert len(set(scores)) > 1 and [sample["score"] for sample in found["sim"]["samples"]] == pytest.approx(scores)


def test_a_python_callable_judges(native):
    asked = vitro.run(experiment(BEST_OF_4), scorer=lambda sample: -len(sample.text) if sample.ended else 0)
    texts = [sample["text"] for sample in asked["scaling"]["samples"]]
    assert asked.text == min(texts, key=len)
    assert asked["scaling"]["scorer"] == "python"

    def fails(sample):
        raise ValueError("no idea")

    with pytest.raises(vitro.RunError, match="no idea"):
        vitro.run(experiment(BEST_OF_4), scorer=fails)
    with pytest.raises(vitro.RunError, match="not a number"):
        vitro.run(experiment(BEST_OF_4), scorer=lambda sample: math.nan)
    with pytest.raises(vitro.ConfigError, match="not callable"):
        vitro.run(experiment(BEST_OF_4), scorer=3)
    with pytest.raises(vitro.ConfigError, match="needs a callable"):
        vitro.run(experiment(BEST_OF_4 | {"scorer": {"kind": "python"}}))


@pytest.mark.parametrize("workload, says", [
    ({"batch": 2}, "workload.batch"),
    ({"sampling": {"temperature": 0}}, "temperature"),
    ({"scaling": BEST_OF_4 | {"scorer": {"kind": "model", "gguf": "none.gguf", "token": "a"}}}, "none.gguf"),
    ({"scaling": BEST_OF_4 | {"scorer": {"kind": "model", "gguf": str(MIXTURE), "token": "a long text"}}}, "expected one"),
])
def test_what_can_not_be_is_refused(native, workload, says):
    scaled = experiment(BEST_OF_4)
    scaled["workload"] |= workload
    with pytest.raises(vitro.ConfigError, match=says):
        vitro.run(scaled)


def test_the_command_line_shows_the_samples(native):
    scaling = "{method: self_consistency, samples: 4, answer: '(girl|boy)'}"
    path = native.write(f"""
experiment: scaled
machine: host
model: {STORIES}
workload: {{prompt: "Once upon a time", output_tokens: 20, sampling: {{temperature: 1}}, scaling: {scaling}}}
""")
    answer = native("run", path)
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert any(line.startswith("self_consistency: ") for line in lines)
    assert sum(line.startswith("*") for line in lines) == 1


def test_a_reward_model_is_looked_for_beside_the_experiment(native, tmp_path):
    (tmp_path / "parts").mkdir()
    native.write("{prompt: a, sampling: {temperature: 1}, scaling: {method: best_of_n, samples: 2, "
                 "scorer: {kind: model, gguf: judge.gguf, token: b}}}", "parts/workload.yaml")
    path = native.write(f"experiment: e\nmachine: host\nmodel: {STORIES}\nworkload: parts/workload.yaml\n")
    assert vitro.resolve(path)["workload"]["scaling"]["scorer"]["gguf"] == str(tmp_path / "parts" / "judge.gguf")


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    path = tmp_path_factory.mktemp("judge") / "judge.gguf"
    make_model(spec_with("tiny", value_head=True), path)
    return path


def scored_by(judge, scaling, **scorer):
    return experiment(scaling | {"scorer": {"kind": "model", "gguf": str(judge), **scorer}})


BEAMS = {"method": "beam_search", "samples": 8, "width": 2, "step": {"until": ".", "max_tokens": 6}}


def test_a_value_head_says_what_the_oracle_says(native, tmp_path):
    model = oracle.random_model(oracle.Shape(), seed=6)
    rng = np.random.default_rng(7)
    head, bias = rng.standard_normal((1, 64)).astype(np.float32), np.array([0.75], np.float32)
    oracle.write_gguf(oracle.Model(model.shape, model.weights | {"cls.output.weight": head, "cls.output.bias": bias}), tmp_path / "m.gguf")
    run = experiment({"method": "best_of_n", "samples": 4, "scorer": {"kind": "model", "gguf": str(tmp_path / "m.gguf"), "suffix": "?"}},
                     prompt="The quick", output_tokens=6, stop_at_eos=False)
    run["model"] = {"gguf": str(tmp_path / "m.gguf")}
    # The head is one more row of the output matrix.
    rows = oracle.Model(model.shape, model.weights | {"output.weight": np.vstack([model.weights["output.weight"], head])})
    compared = 0
    for sample in vitro.run(run)["scaling"]["samples"]:
        text = "The quick" + sample["text"] + "?"
        if "�" in text:
            continue  # bytes that are no text are another text for the judge
        tokens = [1] + oracle.tokenize(text)
        assert sample["score"] == pytest.approx(oracle.logits(rows, tokens)[-1, -1] + 0.75, abs=2e-3)
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("engine", [{}, {"prefill_activations": "fp16"}], ids=["one_contract", "another_for_prompts"])
def test_scores_grow_with_the_text(native, judge, engine):
    grown, whole = (vitro.run(scored_by(judge, BEAMS, incremental=how) | {"engine": {"threads": 1, **engine}}) for how in (True, False))
    sim = vitro.run(scored_by(judge, BEAMS) | {"engine": engine, "device": str(ONEPLUS12)}, machine="sim", overrides={"engine.threads": 2})
    for other in (whole, sim):
        assert [(s["tokens"], s["score"]) for s in other["scaling"]["samples"]] == \
            [(s["tokens"], s["score"]) for s in grown["scaling"]["samples"]], "to the bit"
    assert grown.metric("scaling.rounds") > 2
    assert grown.metric("scaling.scoring_rows") < 0.7 * whole.metric("scaling.scoring_rows")
    assert sim.metric("scaling.scoring_rows") == grown.metric("scaling.scoring_rows")


# tts.yaml, where the layers of both models are on the accelerator, in its contract. A core stands in for it on the host.
@pytest.mark.parametrize("placement", ["cores", "model"])
def test_best_of_eight_with_a_reward_model_beside_the_model(native, judge, placement):
    best_of_8 = scored_by(judge, {"method": "best_of_n", "samples": 8}, placement=placement)
    best_of_8 |= {"engine": str(ROOT / "configs" / "engines" / "tts.yaml"), "device": str(ONEPLUS12),
                  "model": {"gguf": str(STORIES.with_suffix("").with_suffix(".q4_0.gguf"))}}
    sim = vitro.run(best_of_8, machine="sim")
    host = vitro.run(best_of_8, machine="host", overrides={"engine.units": ["cpu0"], "engine.placement.unit": "cpu1"})
    assert [(s["tokens"], s["score"]) for s in sim["scaling"]["samples"]] == [(s["tokens"], s["score"]) for s in host["scaling"]["samples"]]
    assert len({s["score"] for s in sim["scaling"]["samples"]}) > 1 and sim.tokens == host.tokens
    no_room = {"device.npu.session_limit": "4 MiB", "engine.kv_format": "f16"}
    if placement == "cores":
        assert vitro.run(best_of_8, machine="sim", overrides=no_room).tokens == sim.tokens
    else:
        with pytest.raises(vitro.ConfigError, match="of the reward model beside it.*placement: cores"):
            vitro.run(best_of_8, machine="sim", overrides=no_room)


def test_a_judge_without_a_head_needs_a_token_and_one_without_words_says_none(native, judge):
    with pytest.raises(vitro.ConfigError, match="scorer.token: is not stated.*stories-moe-6m.*no value head, the tensor cls.output.weight"):
        vitro.run(scored_by(MIXTURE, BEST_OF_4))
    with pytest.raises(vitro.ConfigError, match="scorer.context: 4096 .expected up to 2048"):
        vitro.run(scored_by(judge, BEST_OF_4, context=4096))
    short = scored_by(judge, BEST_OF_4, context=16)
    with pytest.raises(vitro.RunError, match="whose context is 16"):
        vitro.run(short)
