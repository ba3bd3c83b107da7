"""The maps of T-MAN and TTS-NPU: every result has an answer, every run resolves, and engines have what their papers give them."""
import pytest
import vitro
import yaml
from conftest import ROOT
from vitro.reproducing import paper as reproducing
from vitro.reproducing import paper_map as maps

PAPERS = {paper: maps.load(paper) for paper in ("tman", "tts")}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_run_resolves(native, paper):
    mapped = PAPERS[paper]
    for words in sorted({words for asked in (*mapped.questions, *mapped.checks) for words in reproducing.words_of(asked)}):
        resolved = vitro.resolve(mapped.experiment, overrides=mapped.overrides(words))
        assert resolved["engine"]["function"] == "draw", words
        alone = "workload" in mapped.parts[words.split()[0]]
        assert bool({"products", "softmax"} & set(resolved["workload"])) == alone, words


@pytest.mark.parametrize("paper", PAPERS)
def test_reserved_and_contradictory_results_are_never_scored(paper):
    scored = [asked for asked in PAPERS[paper].questions if asked.status is None]
    assert all("verdict" not in asked.entry and asked.entry.get("status") != "reserved" for asked in scored)
    assert any(asked.status == "reserved" and asked.formula for asked in PAPERS[paper].questions)


def test_what_is_not_modelled_says_why():
    for mapped in PAPERS.values():
        for asked in mapped.questions:
            assert asked.formula or asked.answer["not_modelled"], asked.id


def test_diagnoses_resolve_and_change_something(native):
    for mapped in PAPERS.values():
        for asked in mapped.questions:
            if "diagnosis" not in asked.answer:
                continue
            changed, before = asked.diagnosed(), reproducing.words_of(asked)
            more = asked.answer["diagnosis"].get("set", {})
            assert more or reproducing.words_of(changed) != before, asked.id
            for words in reproducing.words_of(changed):
                vitro.resolve(mapped.experiment, overrides=mapped.overrides(words) | more)


def test_a_tied_embedding_is_the_output_matrix_in_float32_in_mllm():
    heads = {model: PAPERS["tman"].overrides(f"{model} llm_npu")["model.formats"]["head"] for model in ("bitnet", "qwen3", "llama31")}
    assert heads == {"bitnet": "f32", "qwen3": "q4_0", "llama31": "q4_0"}


def engine(name):
    return yaml.safe_load((ROOT / "configs" / "engines" / f"{name}.yaml").read_text())


def test_each_engine_has_its_own_mechanisms_and_no_others():
    looks_up = {name for name in ("tman", "tts", "qnn_w4a16", "qnn_fp16", "llm_npu", "tmac", "bitnet_cpp", "llamacpp_cpu",
                               "llamacpp_opencl")
                if (engine(name).get("products") or {}).get("decode") == "lut"}
    assert looks_up == {"tman"}
    assert engine("llm_npu")["outliers"] != "0%"
    assert engine("llm_npu")["kv_per"] == "query_head"
    assert engine("tmac")["activations"] == "int8_tables" and engine("bitnet_cpp")["kernels"] == "dot"
    assert all(engine(name)["units"] == ["cpu0", "cpu1", "cpu2", "cpu3"] for name in ("tmac", "bitnet_cpp", "llamacpp_cpu"))


@pytest.mark.parametrize("model, parameters", [("bitnet-2b", 2.41e9), ("qwen3-8b", 8.19e9), ("llama-3.1-8b", 8.03e9),
                                                ("qwen2.5-1.5b", 1.54e9),
                                               ("qwen2.5-3b", 3.09e9), ("qwen2.5-7b", 7.62e9),
                                                ("llama-3.2-1b", 1.24e9), ("llama-3.2-3b", 3.21e9)])
def test_shapes_have_as_many_parameters_as_the_models_are_said_to_have(model, parameters):
    s = yaml.safe_load((ROOT / "configs" / "models" / f"{model}.yaml").read_text())["shape"]
    head = s.get("head_dim", s["width"] // s["heads"])
    attention = 2 * s["width"] * s["heads"] * head + 2 * s["width"] * s["kv_heads"] * head
    tables = s["vocab"] * s["width"] * (1 if s.get("tied_embedding") else 2)
    assert s["layers"] * (attention + 3 * s["width"] * s["ffn"]) + tables == pytest.approx(parameters, rel=0.01)
