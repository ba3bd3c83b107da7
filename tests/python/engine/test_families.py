"""Each model family, end to end, against the NumPy oracle: likelihoods to 1e-4, greedy tokens wherever the gap allows.

1e-4 follows from the shapes. A float32 product of n <= 96 terms is off by at most (n / 16 + 4) 2^-24 of its terms' size (the kernels'
lanes), which is 6e-7. Rows pass through at most 3 layers of 7 products, which add up to 1.3e-5 of a logit; logits are below 8 here.
A likelihood is then off by 1e-4 at most; measured, by 2e-7.
Where a router's logits are nearer to another choice than CHOICE, both sides may be right: such a seed is refused.
"""
from dataclasses import replace

import oracle
import pytest
import vitro
from conftest import ROOT
from oracle import Shape

TEXT = "The quick brown fox jumps over the lazy dog, again and again, until the window has moved past its start. 0123456789"

# Of 16 experts some are near enough to each other for the mixer to weigh one against another.
PHI = Shape(arch="phimoe", half_split=True, layer_norm=True, qkv_bias=True, all_biases=True, weights="sparse_mixer", experts=16,
            experts_used=2, ffn=32, original_context=32, attn_factor=1.19)
DEEPSEEK = Shape(arch="deepseek", layers=3, weights="of_all", experts=6, experts_used=2, ffn=32, plain_ffn=96, shared_count=2,
                 dense_layers=1)
PHI3 = Shape(arch="phi3", half_split=True, joined=True, window=7)
FAMILIES = {
    "llama": Shape(),
    "llama_tied": Shape(tied=True, kv_heads=4),
    "llama_linear_scaling": Shape(rope_scale=2.0),
    "llama3_frequency_divisors": Shape(rope_factors=True, rope_base=500000.0),
    "mistral_window": Shape(window=7),
    "reglu": Shape(activation="relu"),
    "qwen2": Shape(arch="qwen2", half_split=True, qkv_bias=True, rope_base=1000000.0, eps=1e-6),
    "qwen2_tied": Shape(arch="qwen2", half_split=True, qkv_bias=True, tied=True),
    "qwen3": Shape(arch="qwen3", half_split=True, qk_norm=True, key_length=24, rope_base=1000000.0, eps=1e-6),
    "bitnet": Shape(arch="bitnet", half_split=True, sub_norms=True),
    "bitnet_b158": Shape(arch="bitnet-b1.58", half_split=True, sub_norms=True, activation="relu_squared", tied=True, rope_base=500000.0),
    "mixtral": Shape(experts=4, experts_used=2),
    "mixtral_one_expert": Shape(experts=4, experts_used=1),
    "qwen2moe": Shape(arch="qwen2moe", half_split=True, qkv_bias=True, rope_base=1000000.0, eps=1e-6, weights="of_all", experts=6,
                      experts_used=3, ffn=32, plain_ffn=96, shared_ffn=80, shared_gate=True),
    "qwen2moe_one_length": Shape(arch="qwen2moe", half_split=True, qkv_bias=True, weights="of_all", experts=6, experts_used=3, ffn=32,
                                 plain_ffn=96, shared_ffn=96, shared_gate=True, lengths=False),
    "qwen3moe": Shape(arch="qwen3moe", half_split=True, qk_norm=True, key_length=24, rope_base=1000000.0, eps=1e-6, experts=8,
                      experts_used=3, ffn=32, plain_ffn=96),
    "olmoe": Shape(arch="olmoe", half_split=True, qk_norm_whole=True, kv_heads=4, weights="of_all", experts=8, experts_used=4, ffn=32),
    "olmoe_grouped": Shape(arch="olmoe", half_split=True, qk_norm_whole=True, weights="of_all", experts=8, experts_used=2, ffn=32),
    "phimoe": PHI,
    "phimoe_short_context": replace(PHI, original_context=64),
    "phi3_window": PHI3,
    "phi3_long": replace(PHI3, window=0, original_context=32, attn_factor=1.19, kv_heads=4),
    "phi3_bias_no_tiles": replace(PHI3, window=0, qkv_bias=True, key_length=24, kv_heads=1),  # slices that no pass takes out
    "deepseek": DEEPSEEK,
    "deepseek_scaled": replace(DEEPSEEK, expert_scale=1.5, dense_layers=0, shared_count=1),
}
CHOICE = 2e-5  # above what float32 moves a router's logit by


@pytest.fixture(scope="module", params=FAMILIES, ids=str)
def family(request, tmp_path_factory):
    model = oracle.random_model(FAMILIES[request.param], seed=len(request.param))
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "model.gguf"
    oracle.write_gguf(model, path)
    text = folder / "text.txt"
    text.write_text(TEXT)
    return model, path, text


def test_likelihood_matches_the_oracle(family):
    model, path, text = family
    result = vitro.perplexity(path, text)
    assert result["tokens"] == len(oracle.tokenize(TEXT))
    gaps = []
    assert result["nll"] == pytest.approx(oracle.nll(model, TEXT, gaps=gaps), abs=1e-4)
    assert min(gaps, default=1) > CHOICE, "choose another seed"


def test_the_simulated_phone_computes_what_the_host_computes(family):
    _, path, _ = family
    experiment = {
        "experiment": "family", "machine": "sim", "device": str(ROOT / "configs" / "devices" / "oneplus12.yaml"),
        "model": {"gguf": str(path)}, "engine": {"threads": 3},
        "workload": {"prompt": "The quick", "output_tokens": 8, "stop_at_eos": False},
    }
    assert vitro.run(experiment)["tokens"] == vitro.run(experiment, machine="host", overrides={"engine.threads": 1})["tokens"]


@pytest.mark.parametrize("engine", [{"threads": 1}, {"threads": 2}, {"threads": 2, "prefill_chunk": 3},
                                    {"threads": 2, "graph": {"fuse": "none"}}], ids=str)
def test_greedy_tokens_match_the_oracle(family, engine):
    model, path, _ = family
    expected, gap = oracle.greedy(model, "The quick", 12)
    result = vitro.run({
        "experiment": "family", "machine": "host", "model": {"gguf": str(path)}, "engine": engine,
        "workload": {"prompt": "The quick", "output_tokens": 12, "stop_at_eos": False},
    })
    if gap > 1e-3:  # float32 against float64 moves logits of this size by less than 1e-4
        assert result["tokens"] == expected
    else:
        pytest.fail(f"choose another seed: a gap of {gap} can not be judged")
