"""Random ReGLU models with planted activation statistics, for runs on real flash without a download.

Nothing in such a model is trained; what is planted is what an out-of-core policy lives on, and nothing else:
- a firing curve: neuron n fires for a share p_n of tokens, in the mean `active`, falling with its rank as rank^-skew;
- correlation: a window of attention in the first layer adds a slowly changing part to the residual stream, so that
  neighbouring tokens fire much the same neurons;
- gates of low rank: up to a share `noise` of its spread, a gate's value is a linear function of `rank` numbers, so that a small
  predictor (tensors fc1, fc2 as PowerInfer stores them) can tell what fires.

How: element 0 of the residual stream is the same for every token. A gate row reads it with a weight that sets the
neuron's threshold, and otherwise a unit vector of a subspace A in which embeddings are Gaussian. Thus its value is
Gaussian, and the probability to be positive is whatever the threshold makes it.
"""
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..base.whole_files import in_place
from ..errors import ConfigError

VOCAB = 3 + 256 + 253  # <unk>, <s>, </s>, bytes, and words that no text contains
RMS_SHARE = 0.25       # of the residual stream's energy in its constant element


@dataclass(frozen=True)
class ModelSpec:
    """Shapes and what to plant. Widths in elements; `active` and `noise` are shares."""
    name: str
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    context: int = 2048
    rank: int = 64
    active: float = 0.075  # of late tokens; the first fire more, since a mean over few of them spreads more
    skew: float = 0.8
    correlation: float = 0.5   # share of the gate's variance that changes slowly
    window: int = 16           # tokens over which it changes
    noise: float = 0.3         # spread of the part of a gate that is not of low rank, in units of the other part's
    recall: float = 0.98       # that the predictor's threshold aims at
    value_head: bool = False   # one more row, as reward models have it (cls.output), which says what a text is worth
    seed: int = 1

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def ffn_parameters(self) -> int:
        return 3 * self.layers * self.ffn * self.width

    @property
    def parameters(self) -> int:
        attention = self.width * (2 * self.width + 2 * self.kv_heads * self.head_dim)
        return self.ffn_parameters + self.layers * (attention + 2 * self.width) + 2 * VOCAB * self.width + self.width


PRESETS = {
    "tiny": ModelSpec("tiny", layers=2, width=256, ffn=1024, heads=4, kv_heads=2, rank=32),
    "200m": ModelSpec("200m", layers=10, width=1024, ffn=5632, heads=8, kv_heads=2),
    "1.3b": ModelSpec("1.3b", layers=16, width=2048, ffn=11264, heads=16, kv_heads=4),
}


def firing_probabilities(neurons: int, active: float, skew: float) -> np.ndarray:
    """-> [neurons], descending: min(cap, c rank^-skew) with the c that makes the mean `active`."""
    shape, cap = np.arange(1, neurons + 1) ** -skew, 0.99
    low, high = 0.0, cap / shape[-1]
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(cap, middle * shape).mean() < active else (low, middle)
    return np.clip(np.minimum(cap, high * shape), 1e-4, cap)


def _normal_quantile(p: np.ndarray) -> np.ndarray:
    """Inverse of the normal distribution function, by bisection of erf."""
    from math import erf, sqrt
    cdf = np.vectorize(lambda x: 0.5 * (1 + erf(x / sqrt(2))))
    grid = np.linspace(-5, 5, 4001)
    return np.interp(p, cdf(grid), grid)


def _predictor_threshold(spec: ModelSpec, thresholds: np.ndarray, rng: np.random.Generator) -> float:
    """The score, in units of the low-rank part's spread, above which a share `recall` of what fires lies."""
    sample = rng.choice(thresholds, 200_000)
    known = rng.standard_normal(sample.size)
    gate = known + spec.noise * rng.standard_normal(sample.size) - sample * np.sqrt(1 + spec.noise ** 2)
    score = known - sample * np.sqrt(1 + spec.noise ** 2)
    return float(np.quantile(score[gate > 0], 1 - spec.recall))


def make_model(spec: ModelSpec, path: str | Path, progress=lambda done, total: None) -> None:
    """Writes the model as GGUF in float16, layer by layer: memory is that of one tensor."""
    import gguf
    if spec.width % spec.heads or spec.heads % spec.kv_heads or spec.head_dim < spec.rank:
        raise ConfigError(f"make-model: {spec.width} elements, {spec.heads} heads, {spec.kv_heads} KV heads and rank {spec.rank} can "
                          "not be combined (expected whole heads, each of at least as many elements as the rank)")
    path = Path(path)
    with in_place(path) as part:
        writer = gguf.GGUFWriter(str(part), "llama")
        _write_metadata(writer, spec)
        tensors = list(_tensors(spec))
        for name, shape, kind, _ in tensors:
            dtype = np.float32 if kind == "vector" else np.float16
            writer.add_tensor_info(name, list(shape), np.dtype(dtype), int(np.prod(shape)) * np.dtype(dtype).itemsize)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for done, (name, shape, kind, make) in enumerate(tensors):
            values = make()
            assert values.shape == shape, name
            writer.write_tensor_data(np.ascontiguousarray(values, dtype=np.float32 if kind == "vector" else np.float16))
            progress(done + 1, len(tensors))
        writer.close()


def _write_metadata(writer, spec: ModelSpec) -> None:
    import gguf
    writer.add_name(f"vitro-made-{spec.name}")
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.width)
    writer.add_block_count(spec.layers)
    writer.add_feed_forward_length(spec.ffn)
    writer.add_head_count(spec.heads)
    writer.add_head_count_kv(spec.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(spec.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCAB)
    writer.add_sliding_window(spec.window)
    if spec.value_head:
        writer.add_pooling_type(gguf.PoolingType.RANK)
    writer.add_string("vitro.feed_forward.activation", "relu")
    rng = np.random.default_rng([spec.seed, 0])
    margins = -_normal_quantile(firing_probabilities(spec.ffn, spec.active, spec.skew))
    writer.add_float32("powerinfer.sparse_threshold", _predictor_threshold(spec, margins, rng))
    writer.add_tokenizer_model("llama")
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"\u2581made{i}" for i in range(VOCAB - len(tokens))]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def _tensors(spec: ModelSpec):
    """Yields (name, shape [rows, columns], kind, make). Every tensor has a random stream of its own."""
    width, rank, head = spec.width, spec.rank, spec.head_dim
    constant = np.sqrt(RMS_SHARE * width)                    # element 0 of the residual stream
    spread = 1.0                                             # of each other element of an embedding
    rms = np.sqrt((constant ** 2 + (width - 1) * spread ** 2) / width)
    # What a gate's subspace shows of an embedding after the norm, and with the slow part that attention adds.
    known = spread / rms / np.sqrt(1 - spec.correlation)

    def rng(*key):
        return np.random.default_rng([spec.seed, 1, *key])

    basis = np.zeros((width, rank), np.float32)              # A: orthonormal, without element 0
    basis[1:] = np.linalg.qr(rng(0).standard_normal((width - 1, rank)))[0]

    def normal(rows, columns, scale, *key):
        return rng(*key).standard_normal((rows, columns), np.float32) * np.float32(scale)

    def without_constant(values):
        values[0] = 0  # element 0 of the residual stream is never written
        return values

    def embedding():
        values = normal(VOCAB, width, spread, 1)
        values[:, 0] = constant
        return values

    yield "token_embd.weight", (VOCAB, width), "matrix", embedding
    margins = -_normal_quantile(firing_probabilities(spec.ffn, spec.active, spec.skew))
    for layer in range(spec.layers):
        def gate(layer=layer, part="all"):
            order = rng(2, layer).permutation(spec.ffn)
            directions = rng(3, layer).standard_normal((spec.ffn, rank), np.float32)
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            total = known * np.sqrt(1 + spec.noise ** 2)
            bias = -margins[order] * total / (constant / rms)
            if part == "predictor":
                return directions, bias
            rows = directions @ basis.T
            noise = rng(4, layer).standard_normal((spec.ffn, width), np.float32)
            noise *= np.float32(spec.noise * known / (spread / rms) / np.sqrt(width))
            rows += noise
            rows[:, 0] = bias
            return rows

        def value(layer=layer):
            rows = normal(spec.kv_heads * head, width, 0.02, 5, layer)
            if layer == 0:
                rows[:rank] = basis.T  # the first KV head carries what the gates read
            return rows

        def attention_output(layer=layer):
            values = normal(width, width, 0.02 / np.sqrt(spec.layers), 6, layer)
            if layer == 0:
                values[:] = 0
                # The mean over a window shrinks the spread; its query heads all say the same.
                gain = np.sqrt(spec.window * spec.correlation / (1 - spec.correlation)) * rms
                group = spec.heads // spec.kv_heads
                for query in range(group):
                    values[:, query * head:query * head + rank] = basis * (gain / group)
            return without_constant(values)

        def fc1(layer=layer):
            rows = np.zeros((_predictor_rank(rank), width), np.float32)
            rows[:rank], rows[rank:2 * rank], rows[2 * rank, 0] = basis.T, -basis.T, 1
            return rows

        def fc2(layer=layer, gate=gate):
            directions, bias = gate(part="predictor")
            rows = np.zeros((spec.ffn, _predictor_rank(rank)), np.float32)
            rows[:, :rank], rows[:, rank:2 * rank], rows[:, 2 * rank] = directions, -directions, bias
            return rows / np.float32(known)

        name = f"blk.{layer}."
        small = 0.02 / np.sqrt(width)
        yield name + "attn_norm.weight", (width,), "vector", lambda: np.ones(width)
        yield name + "attn_q.weight", (width, width), "matrix", lambda layer=layer: normal(width, width, small, 7, layer)
        yield name + "attn_k.weight", (spec.kv_heads * head, width), "matrix", \
            lambda layer=layer: normal(spec.kv_heads * head, width, small, 8, layer)
        yield name + "attn_v.weight", (spec.kv_heads * head, width), "matrix", value
        yield name + "attn_output.weight", (width, width), "matrix", attention_output
        yield name + "ffn_norm.weight", (width,), "vector", lambda: np.ones(width)
        yield name + "ffn_gate.weight", (spec.ffn, width), "matrix", gate
        yield name + "ffn_up.weight", (spec.ffn, width), "matrix", \
            lambda layer=layer: normal(spec.ffn, width, 1 / np.sqrt(width), 9, layer)
        yield name + "ffn_down.weight", (width, spec.ffn), "matrix", \
            lambda layer=layer: without_constant(normal(width, spec.ffn, 0.1 / np.sqrt(spec.ffn * spec.active), 10, layer))
        yield name + "fc1.weight", (_predictor_rank(rank), width), "matrix", fc1
        yield name + "fc2.weight", (spec.ffn, _predictor_rank(rank)), "matrix", fc2
    yield "output_norm.weight", (width,), "vector", lambda: np.ones(width)
    yield "output.weight", (VOCAB, width), "matrix", lambda: normal(VOCAB, width, 3 / np.sqrt(width), 11)
    if spec.value_head:
        yield "cls.output.weight", (1, width), "vector", lambda: normal(1, width, 1 / np.sqrt(width), 12)
        yield "cls.output.bias", (1,), "vector", lambda: np.full(1, 0.5)


def _predictor_rank(rank: int) -> int:
    """Both signs of each of the gates' coordinates and the constant, in whole blocks of 32."""
    return (2 * rank + 1 + 31) // 32 * 32


def spec_with(preset: str, **changes) -> ModelSpec:
    if preset not in PRESETS:
        raise ConfigError(f'make-model: "{preset}" is not known (expected one of: {", ".join(PRESETS)})')
    return replace(PRESETS[preset], **{key: value for key, value in changes.items() if value is not None})
