"""A decoder in NumPy, written from the definition of each family: what the engine's layers are held against.

Everything is float64 on the weights as stored, one token after the other, no cache tricks. Also writes the small random
GGUF files that both sides read.
"""
from dataclasses import dataclass, field

import gguf
import numpy as np
from oracle_mixture import Drop, act, mixture, mixture_metadata, mixture_weights, softmax

__all__ = ["Drop", "Model", "Shape", "foreseen", "greedy", "logits", "nll", "random_model", "tokenize", "write_gguf"]


@dataclass(frozen=True)
class Shape:
    arch: str = "llama"
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 96  # of an expert, where there are some
    experts: int = 0
    experts_used: int = 0
    weights: str = "of_chosen"  # of experts: a softmax over the chosen ones, over all of them ("of_all"), or of a "sparse_mixer"
    expert_scale: float = 1.0
    plain_ffn: int = 0  # feed_forward_length beside an expert's own; 0: the file has that key alone
    lengths: bool = True  # False: an old qwen2moe file, which has feed_forward_length alone
    shared_ffn: int = 0
    shared_gate: bool = False
    shared_count: int = 0  # written in place of shared_ffn
    dense_layers: int | None = None  # None: the file does not say
    layer_norm: bool = False
    all_biases: bool = False  # attn_output and output, too
    half_split: bool = False
    qkv_bias: bool = False
    key_length: int = 0  # 0: width / heads
    qk_norm: bool = False
    qk_norm_whole: bool = False
    sub_norms: bool = False
    joined: bool = False  # q, k and v are one matrix, and so are gate and up
    tied: bool = False
    window: int = 0
    rope_base: float = 10000.0
    rope_scale: float = 1.0  # linear: positions are divided by it
    rope_factors: bool = False
    original_context: int = 0  # up to which the short divisors hold; 0: there are no long and short ones
    attn_factor: float = 1.0
    activation: str | None = None
    eps: float = 1e-5
    context: int = 64
    vocab: int = 3 + 256  # with more, export() alone has names for those that no text uses

    @property
    def head_dim(self):
        return self.key_length or self.width // self.heads

    def has_experts(self, layer):
        return self.experts > 0 and layer >= (self.dense_layers or 0)


@dataclass
class Model:
    shape: Shape
    weights: dict = field(default_factory=dict)


def random_model(shape, seed):
    rng = np.random.default_rng(seed)
    kv = shape.kv_heads * shape.head_dim
    w = {}

    def matrix(name, *dims):
        w[name] = (rng.standard_normal(dims) * 1.5 / np.sqrt(dims[-1])).astype(np.float16)

    def vector(name, n, mean=0.0, spread=0.3):
        w[name] = (mean + spread * rng.standard_normal(n)).astype(np.float32)

    matrix("token_embd.weight", shape.vocab, shape.width)
    vector("output_norm.weight", shape.width, 1.0)
    if not shape.tied:
        matrix("output.weight", shape.vocab, shape.width)
    if shape.original_context:
        w["rope_factors_short.weight"] = np.linspace(1, 1.5, shape.head_dim // 2).astype(np.float32)
        w["rope_factors_long.weight"] = np.linspace(1, 9, shape.head_dim // 2).astype(np.float32)
    if shape.all_biases:
        vector("output.bias", shape.vocab)
    if shape.layer_norm:
        vector("output_norm.bias", shape.width)
    if shape.rope_factors:
        w["rope_freqs.weight"] = np.linspace(1, 4, shape.head_dim // 2).astype(np.float32)
    for i in range(shape.layers):
        p = f"blk.{i}."
        vector(p + "attn_norm.weight", shape.width, 1.0)
        vector(p + "ffn_norm.weight", shape.width, 1.0)
        if shape.qk_norm:
            vector(p + "attn_q_norm.weight", shape.head_dim, 1.0)
            vector(p + "attn_k_norm.weight", shape.head_dim, 1.0)
        if shape.qk_norm_whole:
            vector(p + "attn_q_norm.weight", shape.heads * shape.head_dim, 1.0)
            vector(p + "attn_k_norm.weight", kv, 1.0)
        if shape.layer_norm:
            vector(p + "attn_norm.bias", shape.width)
            vector(p + "ffn_norm.bias", shape.width)
        if shape.all_biases:
            vector(p + "attn_output.bias", shape.width)
        if shape.sub_norms:
            vector(p + "attn_sub_norm.weight", shape.heads * shape.head_dim, 1.0)
            vector(p + "ffn_sub_norm.weight", shape.ffn, 1.0)
        for name, rows in (("q", shape.heads * shape.head_dim), ("k", kv), ("v", kv)):
            matrix(f"{p}attn_{name}.weight", rows, shape.width)
            if shape.qkv_bias:
                vector(f"{p}attn_{name}.bias", rows)
        matrix(p + "attn_output.weight", shape.width, shape.heads * shape.head_dim)
        if shape.has_experts(i):
            mixture_weights(shape, p, matrix, vector)
        else:
            ffn = shape.plain_ffn or shape.ffn
            matrix(p + "ffn_gate.weight", ffn, shape.width)
            matrix(p + "ffn_up.weight", ffn, shape.width)
            matrix(p + "ffn_down.weight", shape.width, ffn)
        if shape.joined:
            _join(w, p)
    return Model(shape, w)


def _join(w, p):
    """The rows of one matrix behind those of another, as converters of Phi-3 leave them."""
    for kind in ("weight", "bias"):
        parts = [w.pop(f"{p}attn_{n}.{kind}") for n in "qkv" if f"{p}attn_{n}.{kind}" in w]
        if parts:
            w[f"{p}attn_qkv.{kind}"] = np.concatenate(parts)
    w[p + "ffn_up.weight"] = np.concatenate([w.pop(p + "ffn_gate.weight"), w[p + "ffn_up.weight"]])


def _qkv(s, w, p, h):
    if not s.joined:
        return [h @ w[f"{p}attn_{n}.weight"].T + w.get(f"{p}attn_{n}.bias", 0) for n in "qkv"]
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return np.split(h @ w[p + "attn_qkv.weight"].T + w.get(p + "attn_qkv.bias", 0), [q, q + kv], axis=-1)


def _gate_up(s, w, p):
    return np.split(w[p + "ffn_up.weight"], 2) if s.joined else (w[p + "ffn_gate.weight"], w[p + "ffn_up.weight"])


def write_gguf(model, path, packed=None):
    """packed: of some weights what the file holds in their place, {name: (bytes of rows, type of GGUF)}."""
    s = model.shape
    writer = gguf.GGUFWriter(str(path), s.arch)
    writer.add_block_count(s.layers)
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.width)
    writer.add_feed_forward_length(s.plain_ffn or s.ffn)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.kv_heads)
    writer.add_layer_norm_rms_eps(s.eps)
    writer.add_rope_freq_base(s.rope_base)
    writer.add_rope_dimension_count(s.head_dim)
    if s.key_length:
        writer.add_key_length(s.key_length)
        writer.add_value_length(s.key_length)
    writer.add_vocab_size(s.vocab)
    if s.rope_scale != 1.0:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(s.rope_scale)
    if s.window:
        writer.add_sliding_window(s.window)
    if s.original_context:
        writer.add_rope_scaling_orig_ctx_len(s.original_context)
    if s.attn_factor != 1.0:
        writer.add_rope_scaling_attn_factors(s.attn_factor)
    if s.experts:
        mixture_metadata(s, writer)
    if s.activation and not s.sub_norms:  # bitnet's follows from its architecture
        writer.add_string("vitro.feed_forward.activation", s.activation)
    # One token per byte: any text has exactly one tokenisation.
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    writer.add_token_scores([0.0] * s.vocab)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(False)
    writer.add_add_bos_token(True)
    for name, value in model.weights.items():
        data, kind = (packed or {}).get(name, (value, None))
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def _layer_norm(s, w, name, x):
    """The norm between layers, of whichever kind the model has."""
    if not s.layer_norm:
        return _norm(x, w[name + ".weight"], s.eps)
    return _norm(x - x.mean(-1, keepdims=True), w[name + ".weight"], s.eps) + w[name + ".bias"]


def _rope(s, x, positions, factors):
    """x: [T, heads, dim]."""
    pairs = s.head_dim // 2
    frequency = s.rope_base ** (-2.0 * np.arange(pairs) / s.head_dim)
    if factors is not None:
        frequency = frequency / factors
    angle = (positions / s.rope_scale)[:, None] * frequency
    cos, sin = s.attn_factor * np.cos(angle)[:, None, :], s.attn_factor * np.sin(angle)[:, None, :]
    out = np.empty_like(x)
    if s.half_split:
        a, b = x[..., :pairs], x[..., pairs:]
        out[..., :pairs], out[..., pairs:] = a * cos - b * sin, b * cos + a * sin
    else:
        a, b = x[..., 0::2], x[..., 1::2]
        out[..., 0::2], out[..., 1::2] = a * cos - b * sin, b * cos + a * sin
    return out


def logits(model, tokens, drop=None, longest=0, gaps=None, seen=None):
    """[T, vocab] for a whole sequence. `drop`: a Drop, or None. `longest`: sequence of the run. `gaps`: a list that takes how near each
    row of a mixture came to another choice. `seen`: one that takes what the FFN of each layer adds to, before its norm."""
    s = model.shape
    w = {name: value.astype(np.float64) for name, value in model.weights.items()}
    t = len(tokens)
    positions = np.arange(t)
    visible = positions[:, None] >= positions[None, :]
    if s.window:
        visible &= positions[:, None] - positions[None, :] < s.window
    x = w["token_embd.weight"][tokens]
    factors = w.get("rope_freqs.weight")
    if s.original_context:
        factors = w[f"rope_factors_{'long' if longest > s.original_context else 'short'}.weight"]
    for i in range(s.layers):
        p = f"blk.{i}."
        h = _layer_norm(s, w, p + "attn_norm", x)
        q, k, v = _qkv(s, w, p, h)
        if s.qk_norm_whole:
            q, k = _norm(q, w[p + "attn_q_norm.weight"], s.eps), _norm(k, w[p + "attn_k_norm.weight"], s.eps)
        q, k, v = (m.reshape(t, -1, s.head_dim) for m in (q, k, v))
        if s.qk_norm:
            q, k = _norm(q, w[p + "attn_q_norm.weight"], s.eps), _norm(k, w[p + "attn_k_norm.weight"], s.eps)
        q, k = _rope(s, q, positions, factors), _rope(s, k, positions, factors)
        group = s.heads // s.kv_heads
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(s.head_dim)
        mixed = np.einsum("hij,jhd->ihd", softmax(np.where(visible, scores, -np.inf)), v).reshape(t, -1)
        if s.sub_norms:
            mixed = _norm(mixed, w[p + "attn_sub_norm.weight"], s.eps)
        attended = mixed @ w[p + "attn_output.weight"].T + w.get(p + "attn_output.bias", 0)
        x = x + attended
        if seen is not None:
            seen.append(x)
        h = _layer_norm(s, w, p + "ffn_norm", x)
        if s.has_experts(i):
            x = x + mixture(s, w, p, h, np.linalg.norm(attended, axis=1), drop, gaps)
        else:
            gate, up = _gate_up(s, w, p)
            hidden = act(s.activation, h @ gate.T) * (h @ up.T)
            if s.sub_norms:
                hidden = _norm(hidden, w[p + "ffn_sub_norm.weight"], s.eps)
            x = x + hidden @ w[p + "ffn_down.weight"].T
    last = _layer_norm(s, w, "output_norm", x)
    return last @ w["token_embd.weight" if s.tied else "output.weight"].T + w.get("output.bias", 0)


def tokenize(text):
    return [3 + b for b in text.replace(" ", "\u2581").encode()]  # SentencePiece writes a space as U+2581


def foreseen(model, tokens):
    """-> the share of the experts chosen in all layers but the first that the layer's router names on the input of the FFN before."""
    s, seen = model.shape, []
    logits(model, tokens, seen=seen)
    w = {name: value.astype(np.float64) for name, value in model.weights.items()}

    def best(layer, x):
        scores = _layer_norm(s, w, f"blk.{layer}.ffn_norm", x) @ w[f"blk.{layer}.ffn_gate_inp.weight"].T
        return np.argsort(-scores, axis=1, kind="stable")[:, :s.experts_used]
    right = [set(chosen) & set(named) for i in range(1, s.layers) for chosen, named in zip(best(i, seen[i]), best(i, seen[i - 1]))]
    return sum(map(len, right)) / (len(right) * s.experts_used)


def nll(model, text, drop=None, gaps=None):
    """Mean over the tokens of `text`, in chunks of context - 1, each after BOS: the protocol of `vitro perplexity`."""
    tokens = tokenize(text)
    total, step = 0.0, model.shape.context - 1
    for begin in range(0, len(tokens), step):
        chunk = tokens[begin:begin + step]
        row = logits(model, [1] + chunk[:-1], drop, model.shape.context, gaps)
        top = row.max(-1)
        total += (top + np.log(np.exp(row - top[:, None]).sum(-1)) - row[np.arange(len(chunk)), chunk]).sum()
    return total / len(tokens)


def greedy(model, prompt, count):
    """Generated ids, and the smallest gap between the best and the second-best logit on the way."""
    tokens, gap = [1] + tokenize(prompt), np.inf
    longest = len(tokens) + count
    for _ in range(count):
        last = logits(model, tokens, longest=longest)[-1]
        best = np.argsort(-last)[:2]
        gap = min(gap, last[best[0]] - last[best[1]])
        tokens.append(int(best[0]))
    return tokens[-count:], gap
