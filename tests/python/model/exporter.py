"""Writes small random models as GPTQ exporters do: a packer of its own, and the float model that the codes stand for."""
import json
import struct

import numpy as np
from oracle import Model, Shape, random_model

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm"}
SAME_INPUT = {"attn_k": "attn_q", "attn_v": "attn_q", "ffn_up": "ffn_gate"}
MODEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
TYPES = {"float16": "F16", "float32": "F32", "int32": "I32"}
LLAMA = Shape(width=128, ffn=192, heads=4, kv_heads=2)
QWEN2 = Shape(arch="qwen2", half_split=True, qkv_bias=True, tied=True, width=128, ffn=192, heads=4, kv_heads=2, eps=1e-6)


def words(fields, bits):
    """Rows of small numbers, packed along the last axis, the first in the lowest bits of a word."""
    per_word = 32 // bits
    weights = 2 ** (bits * np.arange(per_word, dtype=np.int64))
    return (fields.reshape(*fields.shape[:-1], -1, per_word) @ weights).astype(np.uint32).view(np.int32)


def quantise(weight, bits, group, symmetric, least=1):
    """Plain min/max rounding. -> (codes [N, K], scales [N, G] float16, zeros [N, G] from `least` on)"""
    n, k = weight.shape
    blocks = weight.astype(np.float64).reshape(n, -1, group)
    top = 2 ** bits - 1
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    if symmetric:
        high = np.maximum(high, -low)
        low = -high
    scales = ((high - low) / top).astype(np.float16)
    zeros = np.full(scales.shape, 2 ** (bits - 1)) if symmetric else np.clip(np.round(-low / scales), least, top)
    codes = np.clip(np.round(blocks / scales[..., None] + zeros[..., None]), 0, top)
    return codes.reshape(n, k).astype(np.int64), scales, zeros.astype(np.int64)


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": TYPES[str(value.dtype)], "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_tokenizer(path, vocab=259):
    """A tokenizer.model with one piece per byte, as the oracle's, and pieces that nothing uses up to `vocab`."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    def piece(text, kind):
        body = b"\x0a" + varint(len(text)) + text + b"\x15" + struct.pack("<f", 0) + b"\x18" + varint(kind)
        return b"\x0a" + varint(len(body)) + body

    kinds = [(b"<unk>", 2), (b"<s>", 3), (b"</s>", 3)] + [(f"<0x{byte:02X}>".encode(), 6) for byte in range(256)]
    kinds += [(f"<unused{at}>".encode(), 5) for at in range(len(kinds), vocab)]
    spaces = b"\x1a\x04\x18\x00\x20\x00"  # neither one before the text, nor fewer in it
    path.write_bytes(b"".join(piece(text, kind) for text, kind in kinds) + spaces)


def export(folder, shape=LLAMA, bits=4, group=32, symmetric=False, form="gptq", seed=1, act_order=False, only=None, head=False,
           **settings):
    """-> the oracle's Model of the values that the file stands for; {name without .qweight: (codes, scales, zeros)} in the file's order.

    `form`: gptq, gptq_v2, or gptqmodel, as that tool writes "gptq". `act_order`: inputs are of any group; "shared": of the same one in
    all matrices that read them, as tools find it. `only`: names of the parts that have codes. `head`: lm_head has some, too. `settings`: of
    quantize_config.json, over those that the others say.
    """
    model, packed, tensors = random_model(shape, seed), {}, {}
    values = dict(model.weights)
    for name, weight in model.weights.items():
        *layer, part, kind = name.split(".")
        exported = f"model.layers.{layer[1]}.{NAMES[part]}" if layer else MODEL[part]
        permuted = not shape.half_split and part in ("attn_q", "attn_k")
        if permuted:  # from alternating halves, as GGUF has them, to halves
            order = np.arange(len(weight)).reshape(-1, shape.head_dim // 2, 2).swapaxes(1, 2).reshape(-1)
            weight = weight[order]
        coded = (layer or (head and part == "output")) and weight.ndim > 1
        if not coded or (only and part not in only):
            tensors[f"{exported}.{kind}"] = weight
            continue
        inputs = np.arange(weight.shape[1])
        if act_order:
            shared = layer + [SAME_INPUT.get(part, part)] if act_order == "shared" else name
            inputs = np.random.default_rng([seed, *str(shared).encode()]).permutation(weight.shape[1])
        sorted_codes, scales, zeros = quantise(weight[:, inputs], bits, weight.shape[1] if group == -1 else group, symmetric,
                                               least=0 if form == "gptqmodel" else 1)
        per = weight.shape[1] // scales.shape[1]
        codes, groups = np.empty_like(sorted_codes), np.empty(weight.shape[1], np.int32)
        codes[:, inputs], groups[inputs] = sorted_codes, np.arange(weight.shape[1]) // per
        packed[exported] = codes, scales, zeros
        made = scales.astype(np.float64)[:, groups] * (codes - zeros[:, groups])
        if permuted:
            back = np.empty_like(made)
            back[order] = made
            made = back
        values[name] = made
        stored = words(np.ascontiguousarray((zeros - 1 if form == "gptq" else zeros).T), bits)
        if form == "gptqmodel":
            stored = (stored.view(np.uint32) - np.uint32(0xffffffff // ((1 << bits) - 1))).view(np.int32)
        tensors[f"{exported}.qweight"] = np.ascontiguousarray(words(codes, bits).T)
        tensors[f"{exported}.qzeros"] = stored
        tensors[f"{exported}.scales"] = np.ascontiguousarray(scales.T)
        tensors[f"{exported}.g_idx"] = groups
    write_safetensors(folder / "model.safetensors", tensors)
    write_tokenizer(folder / "tokenizer.model", shape.vocab)
    meta = {"meta": {"quantizer": ["gptqmodel:2.2.0"]}} if form == "gptqmodel" else {}
    write_configs(folder, shape, {"bits": bits, "group_size": group, "desc_act": bool(act_order), "sym": symmetric, "quant_method": "gptq",
                                  "checkpoint_format": "gptq" if form == "gptqmodel" else form} | meta | settings)
    return Model(shape, values), packed, tensors


def write_configs(folder, shape, settings):
    (folder / "config.json").write_text(json.dumps({
        "model_type": shape.arch, "num_hidden_layers": shape.layers, "hidden_size": shape.width, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "intermediate_size": shape.ffn, "vocab_size": shape.vocab, "hidden_act": "silu",
        "max_position_embeddings": shape.context, "rms_norm_eps": shape.eps, "rope_theta": shape.rope_base,
        "tie_word_embeddings": shape.tied, "bos_token_id": 1, "eos_token_id": 2}))
    (folder / "quantize_config.json").write_text(json.dumps(settings))
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True}))
