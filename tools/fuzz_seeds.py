#!/usr/bin/env python3
"""Writes the GGUF seeds of the fuzz targets: as small as files can be that still reach every part of the reader.

    pip install gguf==0.19.0 && python tools/fuzz_seeds.py tests/fuzz/gguf_fuzz
"""
import pathlib
import sys

import gguf
import numpy as np

WIDTH, HEADS, KV_HEADS, FFN, VOCAB = 32, 2, 1, 32, 12


def metadata(out, arch):
    out.add_context_length(8)
    out.add_embedding_length(WIDTH)
    out.add_block_count(1)
    out.add_feed_forward_length(FFN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(1e-5)


def tensors(out, biases, quantised, experts):
    def add(name, *shape):
        data = np.zeros(shape, dtype=np.float32)
        kind = gguf.GGMLQuantizationType.Q8_0 if quantised and len(shape) > 1 else None
        out.add_tensor(name, gguf.quants.quantize(data, kind) if kind else data, raw_dtype=kind)

    kv = WIDTH // HEADS * KV_HEADS
    add("token_embd.weight", VOCAB, WIDTH)
    add("output_norm.weight", WIDTH)
    for name, rows in (("attn_q", WIDTH), ("attn_k", kv), ("attn_v", kv), ("attn_output", WIDTH)):
        add(f"blk.0.{name}.weight", rows, WIDTH)
        if biases and name != "attn_output":
            add(f"blk.0.{name}.bias", rows)
    add("blk.0.attn_norm.weight", WIDTH)
    add("blk.0.ffn_norm.weight", WIDTH)
    lead, suffix = ((experts,), "_exps") if experts else ((), "")
    if experts:
        add("blk.0.ffn_gate_inp.weight", experts, WIDTH)
    for name, shape in (("ffn_gate", (FFN, WIDTH)), ("ffn_up", (FFN, WIDTH)), ("ffn_down", (WIDTH, FFN))):
        add(f"blk.0.{name}{suffix}.weight", *lead, *shape)


def finish(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main(folder):
    folder = pathlib.Path(folder)
    sentencepiece = ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "O", "n", "\u2581O", "\u2581On", "[x]", "\u00e9", "t"]
    for name, experts, quantised in (("llama", 0, True), ("mixture", 2, True)):
        out = gguf.GGUFWriter(folder / f"{name}.gguf", "llama")
        metadata(out, "llama")
        if experts:
            out.add_expert_count(experts)
            out.add_expert_used_count(1)
        out.add_tokenizer_model("llama")
        out.add_token_list(sentencepiece)
        out.add_token_scores([0.0 - i for i in range(VOCAB)])
        out.add_token_types([2, 3, 3, 6, 1, 1, 1, 1, 1, 4, 1, 1])
        out.add_bos_token_id(1)
        out.add_unk_token_id(0)
        tensors(out, False, quantised, experts)
        finish(out)
    out = gguf.GGUFWriter(folder / "qwen2.gguf", "qwen2")
    metadata(out, "qwen2")
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    out.add_token_list(["a", "t", "at", "\u0120", "\u0120at", "1", "O", "n", "On", "'", "s", "<s>"])
    out.add_token_types([1] * 11 + [3])
    out.add_token_merges(["a t", "\u0120 at", "O n"])
    tensors(out, True, True, 0)
    finish(out)


if __name__ == "__main__":
    main(sys.argv[1])
