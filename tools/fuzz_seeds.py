#!/usr/bin/env python3
"""Writes seeds of the fuzz targets: as small as files can be that still reach every part of the reader.

    pip install gguf==0.19.0 && PYTHONPATH=python python tools/fuzz_seeds.py tests/fuzz
"""
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import vitro
from vitro.model.files import pack

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


def adapter(path):
    """Of llama.gguf: one matrix of attention, one of the FFN."""
    out = gguf.GGUFWriter(path, "llama")
    out.add_type("adapter")
    out.add_string("adapter.type", "lora")
    out.add_float32("adapter.lora.alpha", 8.0)
    for name in ("blk.0.attn_q.weight", "blk.0.ffn_down.weight"):
        out.add_tensor(f"{name}.lora_a", np.ones((4, WIDTH), dtype=np.float32))
        out.add_tensor(f"{name}.lora_b", np.ones((WIDTH, 4), dtype=np.float16))
    finish(out)


def packs(folder, model):
    """As pack_fuzz reads them: a byte of flags, the plan's text, a zero byte, the sections."""
    for layout in ("rows", "tiled", "bundles", "apart"):
        with tempfile.TemporaryDirectory() as made:
            path = pathlib.Path(made) / "pack"
            pack(model, path, layout)
            data = path.read_bytes()
        size = int.from_bytes(data[16:24], "little")
        (folder / layout).write_bytes(bytes([2]) + data[32:32 + size])


def recordings(folder):
    """As recording_fuzz reads them: a byte of flags, the file without its checksum."""
    fired, chosen = np.eye(4, 8, dtype=bool)[None], np.array([[[0, 1], [1, 0]]])
    for name, arrays in (("dense", {"fired": fired, "tokens": [5, 6, 7, 8]}),
                         ("mixture", {"experts": chosen, "fired": {(0, 1): fired[0, :2]}, "about": {"model": "m"}})):
        with tempfile.TemporaryDirectory() as made:
            path = pathlib.Path(made) / "r.vtrc"
            vitro.Recording.from_arrays(**arrays).save(path)
            (folder / name).write_bytes(bytes([0]) + path.read_bytes()[:-8])


def models(folder):
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
    for family in FAMILIES:
        of_family(folder / f"{family}.gguf", family)
    formats(folder / "formats.gguf")
    of_family(folder / "ordered.gguf", "llama", {"orders"})


# What each has beside or in place of what Llama has.
FAMILIES = {"qwen3": {"heads"}, "bitnet-b1.58": {"sub_norms"}, "qwen2moe": {"biases", "mixture", "gated"}, "qwen3moe": {"heads", "mixture"},
            "olmoe": {"whole", "mixture"}, "phi3": {"joined"}, "phimoe": {"layer_norm", "mixture"},
            "deepseek": {"mixture", "shared", "leading_dense"}}


def of_family(path, family, has=None):
    """One layer, or two where the first is dense, of float32 zeros: width 8, so that all of it is a few KB."""
    has, width, heads, ffn, experts = has or FAMILIES[family], 8, 2, 8, 2
    head = width // heads
    out = gguf.GGUFWriter(path, family)
    out.add_context_length(8)
    out.add_embedding_length(width)
    out.add_feed_forward_length(ffn)
    out.add_head_count(heads)
    out.add_head_count_kv(heads)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_layer_norm_eps(1e-5)
    layers = 2 if "leading_dense" in has else 1
    out.add_block_count(layers)
    if "mixture" in has:
        out.add_expert_count(experts)
        out.add_expert_used_count(1)
        out.add_expert_feed_forward_length(ffn)
    if "gated" in has:
        out.add_expert_shared_feed_forward_length(ffn)
    if "shared" in has:
        out.add_expert_shared_count(1)
        out.add_leading_dense_block_count(1)

    def add(name, *shape):
        out.add_tensor(name, np.zeros(shape, dtype=np.float32))

    def norm(name, size):
        add(f"{name}.weight", size)
        if "layer_norm" in has:
            add(f"{name}.bias", size)

    add("token_embd.weight", VOCAB, width)
    norm("output_norm", width)
    if family.startswith("phi"):
        add("output.weight", VOCAB, width)
    for layer in range(layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm", width)
        norm(f"{block}.ffn_norm", width)
        if "joined" in has:
            add(f"{block}.attn_qkv.weight", 3 * width, width)
        else:
            for name in ("attn_q", "attn_k", "attn_v"):
                add(f"{block}.{name}.weight", width, width)
                if "biases" in has:
                    add(f"{block}.{name}.bias", width)
        add(f"{block}.attn_output.weight", width, width)
        if "orders" in has:  # of columns
            for name in ("attn_q", "attn_k", "ffn_down"):
                out.add_tensor(f"{block}.{name}.order", np.arange(width, dtype=np.int32)[::-1].copy())
        if "heads" in has or "whole" in has:
            for name in ("attn_q_norm", "attn_k_norm"):
                add(f"{block}.{name}.weight", head if "heads" in has else width)
        if "sub_norms" in has:
            add(f"{block}.attn_sub_norm.weight", width)
            add(f"{block}.ffn_sub_norm.weight", ffn)
        mixed = "mixture" in has and not (layer == 0 and "leading_dense" in has)
        lead, suffix = ((experts,), "_exps") if mixed else ((), "")
        if mixed:
            add(f"{block}.ffn_gate_inp.weight", experts, width)
        if "joined" in has:
            add(f"{block}.ffn_up.weight", 2 * ffn, width)
        else:
            add(f"{block}.ffn_gate{suffix}.weight", *lead, ffn, width)
            add(f"{block}.ffn_up{suffix}.weight", *lead, ffn, width)
        add(f"{block}.ffn_down{suffix}.weight", *lead, width, ffn)
        if mixed and has & {"gated", "shared"}:
            for name, shape in (("gate", (ffn, width)), ("up", (ffn, width)), ("down", (width, ffn))):
                add(f"{block}.ffn_{name}_shexp.weight", *shape)
            if "gated" in has:
                add(f"{block}.ffn_gate_inp_shexp.weight", width)
    finish(out)


def formats(path):
    """A tensor of each of ggml's formats that are read, one block long."""
    out = gguf.GGUFWriter(path, "llama")
    for name in ("F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"):
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        out.add_tensor(name.lower(), np.zeros((1, size), dtype=np.uint8), raw_dtype=kind)
    finish(out)


def answers(folder):
    """As answer_fuzz reads them: a byte of flags, then the worker's Response (engine/kernels/hexagon/protocol.hpp)."""
    done, spilled = 1, [0, 0, 0]
    words = [0, 1, done, 0, 0, 1, 2, *spilled]  # ready, progress, answer, where, checksum, sequence, logged
    for name, flags, data in (("silent", 0, []), ("done", 31, words), ("lost", 23, words), ("wrong_sums", 15, words),
                              ("refused", 11, [0, 1, 2, 1])):
        (folder / name).write_bytes(bytes([flags]) + np.array(data, dtype="<u4").tobytes())


YAML = {"anchors.yaml": "a: &a {x: 1, y: [2, 3]}\nb: *a\nc: {<<: *a, y: 4}\n", "texts.yaml": "a: |\n  one\n  two\nb: >-\n  folded\n  text\n"
        "c: 'it''s'\nd: \"\\u00e9\\x41\\n\"\n", "lists.yaml": "- 1\n- [a, {b: c}]\n-\n  - ~\n  - 1e3\n  - 0x1F\n- ? k\n  : v\n",
        "nested.json": '{"a": [[[{"b": null}]]], "c": -1.5e-7, "d": "\\ud83d\\ude00"}'}


def main(folder):
    folder = pathlib.Path(folder)
    models(folder / "gguf_fuzz")
    for name in ("lora_fuzz", "pack_fuzz", "recording_fuzz", "answer_fuzz", "yaml_fuzz"):
        (folder / name).mkdir(exist_ok=True)
    adapter(folder / "lora_fuzz" / "adapter.gguf")
    packs(folder / "pack_fuzz", folder / "gguf_fuzz" / "llama.gguf")
    recordings(folder / "recording_fuzz")
    answers(folder / "answer_fuzz")
    for name, text in YAML.items():
        (folder / "yaml_fuzz" / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
