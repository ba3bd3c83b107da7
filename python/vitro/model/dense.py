"""Random dense Llama and Phi-3 models of a given shape: for measurements of speed, where no values matter but those of a real file do."""
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base.whole_files import in_place


@dataclass(frozen=True)
class DenseShape:
    """A Llama with an output matrix tied to the embedding; `joined`: a Phi-3. Widths in elements."""
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    context: int = 4096
    joined: bool = False  # one matrix for q, k and v, and one for Gate and Up

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads

    @property
    def parameters(self) -> int:
        attention = 2 * self.width * (self.width + self.kv_width)
        return self.layers * (attention + 3 * self.ffn * self.width + 2 * self.width) + (self.vocab + 1) * self.width


BENCHMARK = DenseShape(layers=12, width=1024, ffn=4096, heads=16, kv_heads=4, vocab=32_000)  # 215 M parameters


def make_dense(shape: DenseShape, path: str | Path, seed: int = 1) -> None:
    """Writes the model as GGUF in float16, whole or not at all. Rows have unit gain, so that no value over- or underflows."""
    import gguf
    writer = gguf.GGUFWriter(None, "phi3" if shape.joined else "llama")
    _write_metadata(writer, shape)
    rng = np.random.default_rng(seed)

    def matrix(name, rows, columns):
        writer.add_tensor(name, (rng.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))).astype(np.float16))

    def ones(name):
        writer.add_tensor(name, np.ones(shape.width, np.float32))

    matrix("token_embd.weight", shape.vocab, shape.width)
    ones("output_norm.weight")
    for layer in range(shape.layers):
        name = f"blk.{layer}."
        ones(name + "attn_norm.weight")
        if shape.joined:
            matrix(name + "attn_qkv.weight", shape.width + 2 * shape.kv_width, shape.width)
        else:
            matrix(name + "attn_q.weight", shape.width, shape.width)
            matrix(name + "attn_k.weight", shape.kv_width, shape.width)
            matrix(name + "attn_v.weight", shape.kv_width, shape.width)
        matrix(name + "attn_output.weight", shape.width, shape.width)
        ones(name + "ffn_norm.weight")
        if not shape.joined:
            matrix(name + "ffn_gate.weight", shape.ffn, shape.width)
        matrix(name + "ffn_up.weight", (1 + shape.joined) * shape.ffn, shape.width)
        matrix(name + "ffn_down.weight", shape.width, shape.ffn)
    with in_place(Path(path)) as part:
        writer.write_header_to_file(part)
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _write_metadata(writer, shape: DenseShape) -> None:
    writer.add_name("vitro-made-dense")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(shape.vocab)
    writer.add_tokenizer_model("llama")
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"\u2581made{i}" for i in range(shape.vocab - len(tokens))]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * shape.vocab)
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (shape.vocab - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
