"""Families of models with random weights, of shapes that every weight format fits: what configurations are drawn over beside the embedded
models. Mixtures have eight experts in three layers, as the embedded one has, and the others four layers."""
from adapters import ATTENTION, FFN
from oracle import Shape

_DENSE = {"half_split": True, "layers": 4, "width": 128, "ffn": 192, "context": 512}
_MIXTURE = {"layers": 3, "experts": 8, "experts_used": 2, "width": 128, "ffn": 64, "context": 512}
# Families whose FFNs are not all alike.
UNLIKE = {"leading dense": Shape(arch="deepseek", **_MIXTURE | {"layers": 4}, weights="of_all", plain_ffn=192, shared_count=1,
                                 dense_layers=1),
          "normed": Shape(arch="bitnet-b1.58", sub_norms=True, activation="relu_squared", **_DENSE)}
_SMALL = _DENSE | {"width": 64, "heads": 2, "kv_heads": 1, "ffn": 128}
_SMALL_MIXTURE = _MIXTURE | {"width": 64, "heads": 2, "kv_heads": 1}
OTHERS = {"llama": Shape(**_SMALL | {"half_split": False}, tied=True, rope_factors=True, window=9),
          "qwen2": Shape(arch="qwen2", qkv_bias=True, rope_base=1e6, eps=1e-6, **_SMALL),
          "qwen3": Shape(arch="qwen3", qk_norm=True, key_length=64, rope_base=1e6, eps=1e-6, **_SMALL),
          "phi3": Shape(arch="phi3", joined=True, window=7, **_SMALL | {"kv_heads": 2}),
          "mixtral": Shape(**_SMALL_MIXTURE),
          "qwen2moe": Shape(arch="qwen2moe", half_split=True, qkv_bias=True, weights="of_all", **_SMALL_MIXTURE, plain_ffn=192,
                            shared_ffn=128, shared_gate=True),
          "qwen3moe": Shape(arch="qwen3moe", half_split=True, qk_norm=True, key_length=64, **_SMALL_MIXTURE | {"experts_used": 3},
                            plain_ffn=192),
          "olmoe": Shape(arch="olmoe", half_split=True, qk_norm_whole=True, weights="of_all", **_SMALL_MIXTURE | {"experts_used": 4}),
          "phimoe": Shape(arch="phimoe", half_split=True, layer_norm=True, qkv_bias=True, all_biases=True, weights="sparse_mixer",
                          original_context=32, attn_factor=1.19, **_SMALL_MIXTURE)}
SHAPES = UNLIKE | OTHERS


def matrices(shape, which):
    """Names of the matrices that an adapter of `all`, or of `attention` alone, has. FFNs of mixtures take none, neither their experts nor
    the dense ones before them."""
    attention = ("attn_qkv", "attn_output") if shape and shape.joined else ATTENTION
    if which == "attention":
        return attention[:1] + (() if shape and shape.joined else ("attn_v",))
    ffn = FFN[1:] if shape and shape.joined else FFN
    return attention + (() if shape and shape.dense_layers else ffn)
