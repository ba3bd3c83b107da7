"""A folder as GPTQ exporters write it (config.json, safetensors, a tokenizer) made into a GGUF file with the codes, scales and zero points
that it has. Norms and biases become float32; embedding and output matrix keep their floats, or their codes if they have some."""
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.inputs import Progress
from ..base.whole_files import in_place
from ..errors import ConfigError
from . import gptq
from .exported_tokenizer import Tokenizer, read_tokenizer
from .safetensors import Tensor, json_object, read_folder

FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}  # model_type: architecture in GGUF
FLOATS = {"F32": 0, "F16": 1, "BF16": 30}  # types in GGUF
VALUES = {"f16": ("F16", np.float16), "f32": ("F32", np.float32)}  # for --act-order: its type and NumPy's
CODES = "codes"
INT32 = 26  # in GGUF: of orders of columns
PARTS = ("qweight", "qzeros", "scales", "g_idx")


class Config:
    """config.json, whose numbers are checked as they are asked for."""

    def __init__(self, folder: Path):
        self.path = folder / "config.json"
        self.values = json_object(self.path)
        self.family = self.one_of("model_type", None, tuple(FAMILIES))
        self.layers, self.width, self.heads = (self.whole(key, 1) for key in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
        self.kv_heads = self.whole("num_key_value_heads", 1, otherwise=self.heads)
        self.ffn, self.vocab = self.whole("intermediate_size", 1), self.whole("vocab_size", 1)
        self.head_dim = self.whole("head_dim", 2, otherwise=self.width // self.heads)
        self.context = self.whole("max_position_embeddings", 1)
        self.tied = bool(self.values.get("tie_word_embeddings", False))
        self.rope = self._rope()
        self.bos, self.eos = self._token("bos_token_id"), self._token("eos_token_id")
        self.one_of("hidden_act", "silu", ("silu",))
        if self.values.get("use_sliding_window"):
            raise self.fail("use_sliding_window", True, "false: layers with windows of their own are not supported")

    def fail(self, key: str, value: Any, expected: str) -> ConfigError:
        return ConfigError(f"{self.path}: {key}: {value!r} (expected {expected})")

    def whole(self, key: str, least: int, otherwise: int | None = None) -> int:
        value = self.values.get(key)
        if value is None and otherwise is not None:
            return otherwise
        if type(value) is not int or not least <= value < 1 << 31:
            raise self.fail(key, value, f"a whole number from {least} on")
        return value

    def number(self, key: str, otherwise: float, within: dict[str, Any] | None = None) -> float:
        value = (self.values if within is None else within).get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            raise self.fail(key, value, "a number above 0")
        return float(value)

    def one_of(self, key: str, otherwise: str | None, known: tuple[str, ...]) -> str:
        value = self.values.get(key, otherwise)
        if value not in known:
            raise self.fail(key, value, f"one of {', '.join(known)}")
        return str(value)

    def _rope(self) -> dict[str, Any]:
        """Base and scaling of the rotation: transformers 5 writes both as `rope_parameters`, older ones apart."""
        together = self.values.get("rope_parameters")
        stated = together if together is not None else self.values.get("rope_scaling") or {}
        if not isinstance(stated, dict) or any(isinstance(value, dict) for value in stated.values()):
            raise self.fail("rope_scaling" if together is None else "rope_parameters", stated, "an object that holds for all layers")
        if together is None or "rope_theta" not in stated:
            stated = stated | {"rope_theta": self.values.get("rope_theta", 10000.0)}
        return stated

    @property
    def rope_kind(self) -> str:
        return str(self.rope.get("rope_type", self.rope.get("type", "default")))

    def _token(self, key: str) -> int | None:
        value = self.values.get(key)
        value = value[0] if isinstance(value, list) and value else value
        return value if type(value) is int and 0 <= value < self.vocab else None


@dataclass
class Part:
    """One tensor of the GGUF file."""
    name: str
    type: int
    shape: tuple[int, ...]
    bytes: int
    make: Callable[[], np.ndarray[Any, Any]]


def convert(folder: str | os.PathLike[str], target: str | os.PathLike[str], *, act_order: str = CODES, round_scales: bool = False,
            progress: Progress | None = None) -> dict[str, Any]:
    """Writes the file whole or not at all. `act_order`, of matrices whose groups do not lie side by side (desc_act): codes, with their
    columns group by group and a tensor that says which input each multiplies; f16 or f32, their values. `round_scales`: scales that
    float16 does not hold become the nearest that it does.

    -> {"bits", "group_size" (0: a row), "matrices" (with codes), "ordered" (of these, with columns in an order of their own), "as_values"
    (those written as floats), "tensors"}
    """
    if act_order not in (CODES, *VALUES):
        raise ConfigError(f"--act-order: {act_order!r} (expected {', '.join((CODES, *VALUES))})")
    folder, target = Path(folder), Path(target)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is no folder (expected one with config.json and *.safetensors)")
    config = Config(folder)
    settings = gptq.read_settings(folder, config.values, round_scales)
    tokenizer = read_tokenizer(folder, config.bos)
    if len(tokenizer.tokens) > config.vocab:
        raise ConfigError(f"{config.path}: vocab_size: {config.vocab}, but the tokenizer has {len(tokenizer.tokens)} tokens")
    tokenizer.pad(config.vocab)
    source = _Source(config, settings, read_folder(folder), act_order)
    parts = source.parts()
    _write(config, tokenizer, parts, target, progress)
    return {"bits": settings.bits, "group_size": settings.group, "matrices": source.matrices, "ordered": source.ordered,
            "as_values": source.as_values, "tensors": len(parts)}


class _Source:
    def __init__(self, config: Config, settings: gptq.Settings, tensors: dict[str, Tensor], act_order: str):
        self.config, self.settings, self.tensors, self.act_order = config, settings, tensors, act_order
        self.used: set[str] = set()
        self.matrices = self.ordered = self.as_values = 0

    def parts(self) -> list[Part]:
        c = self.config
        found = self._matrix("model.embed_tokens", "token_embd", c.vocab, c.width)
        for factors in _rope_factors(c):
            found.append(_vector("rope_freqs.weight", factors))
        for layer in range(c.layers):
            found += self._layer(f"model.layers.{layer}.", f"blk.{layer}.")
        found.append(self._norm("model.norm", "output_norm", c.width))
        if not c.tied:
            found += self._matrix("lm_head", "output", c.vocab, c.width)
        elif "lm_head.weight" in self.tensors:
            self.used.add("lm_head.weight")  # the embedding once more
        for name, tensor in self.tensors.items():
            if name not in self.used and not name.endswith("rotary_emb.inv_freq"):
                raise tensor.fail(f"a model of the type {c.family} has no such tensor")
        return found

    def _layer(self, name: str, short: str) -> list[Part]:
        c = self.config
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        found = [self._norm(f"{name}input_layernorm", f"{short}attn_norm", c.width),
                 self._norm(f"{name}post_attention_layernorm", f"{short}ffn_norm", c.width)]
        if c.family == "qwen3":
            found += [self._norm(f"{name}self_attn.{part}_norm", f"{short}attn_{part}_norm", c.head_dim) for part in "qk"]
        for part, rows, heads in (("q", q, c.heads), ("k", kv, c.kv_heads), ("v", kv, 0)):
            order = interleaved(rows, heads) if heads and FAMILIES[c.family] == "llama" else None
            found += self._matrix(f"{name}self_attn.{part}_proj", f"{short}attn_{part}", rows, c.width, order)
            if self._has_biases(name):
                found.append(_vector(f"{short}attn_{part}.bias", self._bias(f"{name}self_attn.{part}_proj", rows, order)))
        found += self._matrix(f"{name}self_attn.o_proj", f"{short}attn_output", c.width, q)
        for part, rows, columns in (("gate", c.ffn, c.width), ("up", c.ffn, c.width), ("down", c.width, c.ffn)):
            found += self._matrix(f"{name}mlp.{part}_proj", f"{short}ffn_{part}", rows, columns)
        for part in ("self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
            self._refuse_bias(f"{name}{part}.bias")
        return found

    def _has_biases(self, layer: str) -> bool:
        """Of q, k and v. Exporters write biases of zeros where a model has none."""
        names = [f"{layer}self_attn.{part}_proj.bias" for part in "qkv"]
        self.used.update(name for name in names if name in self.tensors)
        return self.config.family == "qwen2" or any(name in self.tensors and self.tensors[name].floats().any() for name in names)

    def _bias(self, name: str, rows: int, order: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        values = gptq.tensor_of(self.tensors, f"{name}.bias", tuple(FLOATS), (rows,)).floats()
        return values if order is None else values[order]

    def _refuse_bias(self, name: str) -> None:
        if name in self.tensors:
            self.used.add(name)
            if self.tensors[name].floats().any():
                raise self.tensors[name].fail("a bias that is not zero (expected one of q, k and v alone)")

    def _norm(self, name: str, short: str, size: int) -> Part:
        self.used.add(f"{name}.weight")
        return _vector(f"{short}.weight", gptq.tensor_of(self.tensors, f"{name}.weight", tuple(FLOATS), (size,)).floats())

    def _matrix(self, name: str, short: str, rows: int, columns: int, order: np.ndarray[Any, Any] | None = None) -> list[Part]:
        if f"{name}.qweight" not in self.tensors:
            self.used.add(f"{name}.weight")
            tensor = gptq.tensor_of(self.tensors, f"{name}.weight", tuple(FLOATS), (rows, columns))
            return [Part(f"{short}.weight", FLOATS[tensor.type], tensor.shape, tensor.bytes,
                         lambda: tensor.load() if order is None else tensor.load()[order])]
        self.used.update(f"{name}.{part}" for part in PARTS)
        matrix = gptq.read_matrix(self.tensors, name, (rows, columns), self.settings)  # checks it; read again when it is written

        def again() -> gptq.Matrix:
            found = gptq.read_matrix(self.tensors, name, (rows, columns), self.settings)
            return found if order is None else found.rows(order)

        columns_of = matrix.order()
        if columns_of is None or self.act_order == CODES:
            self._refuse_order(matrix, name, short)
            self.matrices += 1
            weight = Part(f"{short}.weight", matrix.gguf_type, (rows, columns), matrix.sorted().encode().nbytes,
                          lambda: again().sorted().encode())
            if columns_of is None:
                return [weight]
            self.ordered += 1
            return [weight, Part(f"{short}.order", INT32, (columns,), columns_of.nbytes, lambda: columns_of)]
        values = VALUES[self.act_order]
        with np.errstate(over="ignore"):
            if not np.isfinite(matrix.values().astype(values[1])).all():
                raise self.tensors[f"{name}.scales"].fail(f"makes values that {self.act_order} can not hold (expected --act-order f32)")
        self.as_values += 1
        return [Part(f"{short}.weight", FLOATS[values[0]], (rows, columns), rows * columns * np.dtype(values[1]).itemsize,
                     lambda: again().values().astype(values[1]))]

    def _refuse_order(self, matrix: gptq.Matrix, name: str, short: str) -> None:
        """Of groups that are not of one size, and of the embedding, whose rows are looked up and multiply nothing."""
        if uneven := matrix.uneven():
            raise self.tensors[f"{name}.g_idx"].fail(f"{uneven}, or --act-order f32 or f16, which writes the values)")
        if matrix.groups is not None and short == "token_embd":
            raise self.tensors[f"{name}.g_idx"].fail("act order of an embedding, whose rows have to stand as the inputs do (expected "
                                                     "--act-order f16 or f32, which writes the values)")


def interleaved(rows: int, heads: int) -> np.ndarray[Any, Any]:
    """The order of q's and k's rows in GGUF files of Llama, where the two halves of a head alternate."""
    return np.arange(rows).reshape(heads, 2, rows // heads // 2).swapaxes(1, 2).reshape(rows)


def _vector(name: str, values: np.ndarray[Any, Any]) -> Part:
    values = np.ascontiguousarray(values, np.float32)
    return Part(name, FLOATS["F32"], values.shape, values.nbytes, lambda: values)


def _rope_factors(c: Config) -> list[np.ndarray[Any, Any]]:
    """Llama 3's divisors of the frequencies, in [] or a list of one. Linear scaling is a number, written with the others."""
    if c.rope_kind in ("default", "linear"):
        return []
    if c.rope_kind != "llama3":
        raise c.fail("rope_scaling", c.rope, "none, or of the type linear or llama3")
    factor, low, high, old = (c.number(key, 0, c.rope) for key in
                              ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    wavelength = 2 * math.pi * c.number("rope_theta", 0, c.rope) ** (np.arange(0, c.head_dim, 2) / c.head_dim)
    smooth = np.clip((old / wavelength - low) / (high - low), 0, 1)
    return [1 / ((1 - smooth) / factor + smooth)]


def _write(c: Config, tokenizer: Tokenizer, parts: list[Part], target: Path, progress: Progress | None) -> None:
    import gguf
    with in_place(target) as unfinished:
        writer: Any = gguf.GGUFWriter(str(unfinished), FAMILIES[c.family])  # it has no names for the types of our own
        _write_metadata(writer, c, tokenizer, gguf)
        for part in parts:
            writer.add_tensor_info(part.name, part.shape, np.dtype(np.float32), part.bytes, raw_dtype=part.type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for done, part in enumerate(parts):
            writer.write_tensor_data(part.make())
            if progress:
                progress(done + 1, len(parts))
        writer.close()


def _write_metadata(writer: Any, c: Config, tokenizer: Tokenizer, gguf: Any) -> None:
    writer.add_name(c.path.resolve().parent.name)
    writer.add_block_count(c.layers)
    writer.add_context_length(c.context)
    writer.add_embedding_length(c.width)
    writer.add_feed_forward_length(c.ffn)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(c.number("rope_theta", 0, c.rope))
    writer.add_layer_norm_rms_eps(c.number("rms_norm_eps", 1e-6))
    writer.add_vocab_size(c.vocab)
    if c.rope_kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(c.number("factor", 0, c.rope))
    if c.family == "mistral" and c.values.get("sliding_window"):
        writer.add_sliding_window(c.whole("sliding_window", 1))
    writer.add_tokenizer_model(tokenizer.model)
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.types)
    if tokenizer.scores:
        writer.add_token_scores(tokenizer.scores)
        writer.add_add_space_prefix(tokenizer.space_prefix)
        writer.add_remove_extra_whitespaces(tokenizer.remove_spaces)
    if tokenizer.model == "gpt2":
        writer.add_tokenizer_pre(tokenizer.pattern)
        writer.add_token_merges(tokenizer.merges)
    if c.bos is not None:
        writer.add_bos_token_id(c.bos)
    if c.eos is not None:
        writer.add_eos_token_id(c.eos)
    writer.add_add_bos_token(tokenizer.add_bos)
