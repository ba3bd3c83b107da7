"""A decoder in NumPy, written from the definition of each family: what the engine's layers are held against.

Everything is float64 on the weights as stored, one token after the other, no cache tricks. Also writes the small random
GGUF files that both sides read.
"""
from dataclasses import dataclass, field

import gguf
import numpy as np


@dataclass(frozen=True)
class Shape:
    arch: str = "llama"
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 96
    experts: int = 0
    experts_used: int = 0
    half_split: bool = False
    qkv_bias: bool = False
    key_length: int = 0  # 0: width / heads
    qk_norm: bool = False
    sub_norms: bool = False
    tied: bool = False
    window: int = 0
    rope_base: float = 10000.0
    rope_scale: float = 1.0  # linear: positions are divided by it
    rope_factors: bool = False
    activation: str | None = None
    eps: float = 1e-5
    context: int = 64

    @property
    def head_dim(self):
        return self.key_length or self.width // self.heads

    @property
    def vocab(self):
        return 3 + 256


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
    if shape.rope_factors:
        w["rope_freqs.weight"] = np.linspace(1, 4, shape.head_dim // 2).astype(np.float32)
    for i in range(shape.layers):
        p = f"blk.{i}."
        vector(p + "attn_norm.weight", shape.width, 1.0)
        vector(p + "ffn_norm.weight", shape.width, 1.0)
        if shape.qk_norm:
            vector(p + "attn_q_norm.weight", shape.head_dim, 1.0)
            vector(p + "attn_k_norm.weight", shape.head_dim, 1.0)
        if shape.sub_norms:
            vector(p + "attn_sub_norm.weight", shape.heads * shape.head_dim, 1.0)
            vector(p + "ffn_sub_norm.weight", shape.ffn, 1.0)
        for name, rows in (("q", shape.heads * shape.head_dim), ("k", kv), ("v", kv)):
            matrix(f"{p}attn_{name}.weight", rows, shape.width)
            if shape.qkv_bias:
                vector(f"{p}attn_{name}.bias", rows)
        matrix(p + "attn_output.weight", shape.width, shape.heads * shape.head_dim)
        if shape.experts:
            matrix(p + "ffn_gate_inp.weight", shape.experts, shape.width)
            for name, dims in (("gate", (shape.ffn, shape.width)), ("up", (shape.ffn, shape.width)), ("down", (shape.width, shape.ffn))):
                matrix(f"{p}ffn_{name}_exps.weight", shape.experts, *dims)
        else:
            matrix(p + "ffn_gate.weight", shape.ffn, shape.width)
            matrix(p + "ffn_up.weight", shape.ffn, shape.width)
            matrix(p + "ffn_down.weight", shape.width, shape.ffn)
    return Model(shape, w)


def write_gguf(model, path):
    s = model.shape
    writer = gguf.GGUFWriter(str(path), s.arch)
    writer.add_block_count(s.layers)
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.width)
    writer.add_feed_forward_length(s.ffn)
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
    if s.experts:
        writer.add_expert_count(s.experts)
        writer.add_expert_used_count(s.experts_used)
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
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _act(name, x):
    if name == "relu":
        return np.maximum(x, 0)
    if name == "relu_squared":
        return np.maximum(x, 0) ** 2
    return x / (1 + np.exp(-x))


def _norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def _rope(s, x, positions, factors):
    """x: [T, heads, dim]."""
    pairs = s.head_dim // 2
    frequency = s.rope_base ** (-2.0 * np.arange(pairs) / s.head_dim)
    if factors is not None:
        frequency = frequency / factors
    angle = (positions / s.rope_scale)[:, None] * frequency
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    out = np.empty_like(x)
    if s.half_split:
        a, b = x[..., :pairs], x[..., pairs:]
        out[..., :pairs], out[..., pairs:] = a * cos - b * sin, b * cos + a * sin
    else:
        a, b = x[..., 0::2], x[..., 1::2]
        out[..., 0::2], out[..., 1::2] = a * cos - b * sin, b * cos + a * sin
    return out


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Drop:
    """An expert computes so many rows of each chunk, and drops the others: those whose attention output has the smallest L2 norm, or
    those to which the router gave the least weight."""
    capacity: int
    chunk: int
    by_norm: bool


def _dropped(chosen, shares, norms, drop):
    """-> {(row, expert)}"""
    out = set()
    for first in range(0, len(chosen), drop.chunk):
        rows = range(first, min(first + drop.chunk, len(chosen)))
        for expert in {e for t in rows for e in chosen[t]}:
            mine = [t for t in rows if expert in chosen[t]]
            rank = {t: norms[t] if drop.by_norm else shares[t][list(chosen[t]).index(expert)] for t in mine}
            out |= {(t, expert) for t in sorted(mine, key=lambda t: -rank[t])[drop.capacity:]}
    return out


def _experts(s, w, p, x, norms, drop):
    logits = x @ w[p + "ffn_gate_inp.weight"].T
    out = np.zeros_like(x)
    all_chosen = [np.argsort(-row, kind="stable")[: s.experts_used] for row in logits]
    shares = [_softmax(row[chosen]) for row, chosen in zip(logits, all_chosen)]
    dropped = _dropped(all_chosen, shares, norms, drop) if drop else set()
    for t, (chosen, share) in enumerate(zip(all_chosen, shares)):
        for e, weight in zip(chosen, share):
            if (t, e) in dropped:
                continue
            gate, up, down = (w[f"{p}ffn_{n}_exps.weight"][e] for n in ("gate", "up", "down"))
            out[t] += weight * (down @ (_act(s.activation, gate @ x[t]) * (up @ x[t])))
    return out


def logits(model, tokens, drop=None):
    """[T, vocab] for a whole sequence. `drop`: a Drop, or None."""
    s = model.shape
    w = {name: value.astype(np.float64) for name, value in model.weights.items()}
    t = len(tokens)
    positions = np.arange(t)
    visible = positions[:, None] >= positions[None, :]
    if s.window:
        visible &= positions[:, None] - positions[None, :] < s.window
    x = w["token_embd.weight"][tokens]
    factors = w.get("rope_freqs.weight")
    for i in range(s.layers):
        p = f"blk.{i}."
        h = _norm(x, w[p + "attn_norm.weight"], s.eps)
        q, k, v = ((h @ w[f"{p}attn_{n}.weight"].T + w.get(f"{p}attn_{n}.bias", 0)).reshape(t, -1, s.head_dim) for n in "qkv")
        if s.qk_norm:
            q, k = _norm(q, w[p + "attn_q_norm.weight"], s.eps), _norm(k, w[p + "attn_k_norm.weight"], s.eps)
        q, k = _rope(s, q, positions, factors), _rope(s, k, positions, factors)
        group = s.heads // s.kv_heads
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(s.head_dim)
        mixed = np.einsum("hij,jhd->ihd", _softmax(np.where(visible, scores, -np.inf)), v).reshape(t, -1)
        if s.sub_norms:
            mixed = _norm(mixed, w[p + "attn_sub_norm.weight"], s.eps)
        attended = mixed @ w[p + "attn_output.weight"].T
        x = x + attended
        h = _norm(x, w[p + "ffn_norm.weight"], s.eps)
        if s.experts:
            x = x + _experts(s, w, p, h, np.linalg.norm(attended, axis=1), drop)
        else:
            gate, up, down = (w[f"{p}ffn_{n}.weight"] for n in ("gate", "up", "down"))
            hidden = _act(s.activation, h @ gate.T) * (h @ up.T)
            if s.sub_norms:
                hidden = _norm(hidden, w[p + "ffn_sub_norm.weight"], s.eps)
            x = x + hidden @ down.T
    return _norm(x, w["output_norm.weight"], s.eps) @ w["token_embd.weight" if s.tied else "output.weight"].T


def tokenize(text):
    return [3 + b for b in text.replace(" ", "\u2581").encode()]  # SentencePiece writes a space as U+2581


def nll(model, text, drop=None):
    """Mean over the tokens of `text`, in chunks of context - 1, each after BOS: the protocol of `vitro perplexity`."""
    tokens = tokenize(text)
    total, step = 0.0, model.shape.context - 1
    for begin in range(0, len(tokens), step):
        chunk = tokens[begin:begin + step]
        row = logits(model, [1] + chunk[:-1], drop)
        top = row.max(-1)
        total += (top + np.log(np.exp(row - top[:, None]).sum(-1)) - row[np.arange(len(chunk)), chunk]).sum()
    return total / len(tokens)


def greedy(model, prompt, count):
    """Generated ids, and the smallest gap between the best and the second-best logit on the way."""
    tokens, gap = [1] + tokenize(prompt), np.inf
    for _ in range(count):
        last = logits(model, tokens)[-1]
        best = np.argsort(-last)[:2]
        gap = min(gap, last[best[0]] - last[best[1]])
        tokens.append(int(best[0]))
    return tokens[-count:], gap
