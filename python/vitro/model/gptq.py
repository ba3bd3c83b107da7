"""Matrices as GPTQ exporters write them, and the same codes, scales and zero points as blocks of a group format.

Of a matrix of N outputs and K inputs: `qweight` int32 [K * bits / 32, N] has codes of consecutive inputs in one word, the first lowest;
`qzeros` int32 [groups, N * bits / 32] zero points of consecutive outputs; `scales` [groups, N]; `g_idx` int32 [K] the group of each input.
A weight is scale * (code - zero point). Files of the format "gptq" hold the zero points less one, those of "gptq_v2" themselves.
"""
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError
from .safetensors import Tensor, json_object

Array = np.ndarray[Any, Any]
PRIVATE_TYPES = 0x56540000  # docs/reference/formats.md, "Type ids"
LARGEST_BLOCK, SMALLEST_BLOCK = 128, 32


@dataclass(frozen=True)
class Settings:
    path: Path
    bits: int
    group: int  # 0: all inputs of an output
    symmetric: bool
    act_order: bool
    less_one: bool  # zero points are stored less one


def read_settings(folder: Path, config: dict[str, Any]) -> Settings:
    """From quantize_config.json, or from what config.json says in its place."""
    path = folder / "quantize_config.json"
    if path.exists():
        found = json_object(path)
    else:
        path, stated = folder / "config.json", config.get("quantization_config")
        if not isinstance(stated, dict):
            raise ConfigError(f"{path}: quantization_config is missing, and there is no {folder / 'quantize_config.json'} "
                              "(expected a model in GPTQ)")
        found = stated

    def value(key: str, otherwise: Any, known: tuple[Any, ...], expected: str) -> Any:
        got = found.get(key, otherwise)
        if not any(type(got) is type(one) and got == one for one in known):
            raise ConfigError(f"{path}: {key}: {got!r} (expected {expected})")
        return got

    value("quant_method", "gptq", ("gptq",), "gptq")
    bits = value("bits", None, (4, 8), "4 or 8")
    group = found.get("group_size")
    if type(group) is not int or (group != -1 and (group < SMALLEST_BLOCK or group % SMALLEST_BLOCK)):
        raise ConfigError(f"{path}: group_size: {group!r} (expected -1 or a multiple of {SMALLEST_BLOCK})")
    form = value("checkpoint_format", "gptq", ("gptq", "gptq_v2"), "gptq or gptq_v2")
    return Settings(path, bits, max(group, 0), value("sym", True, (True, False), "true or false"),
                    value("desc_act", False, (True, False), "true or false"), form == "gptq")


@dataclass(frozen=True)
class Matrix:
    bits: int
    codes: Array  # uint8 [N, K]
    scales: Array  # float16 [N, groups]
    zeros: Array  # uint8 [N, groups]
    of_row: bool  # one group for all inputs, by the file's promise

    def rows(self, order: Array) -> "Matrix":
        return Matrix(self.bits, self.codes[order], self.scales[order], self.zeros[order], self.of_row)

    def values(self) -> Array:
        group = self.codes.shape[1] // self.scales.shape[1]
        scales, zeros = (np.repeat(part, group, axis=1) for part in (self.scales.astype(np.float32), self.zeros.astype(np.int32)))
        return scales * (self.codes.astype(np.int32) - zeros).astype(np.float32)

    @property
    def block(self) -> int:
        return math.gcd(self.codes.shape[1] // self.scales.shape[1], LARGEST_BLOCK)

    @property
    def zero_points(self) -> bool:
        """False where the format without any has the same values."""
        return self.bits == 8 or bool((self.zeros != 1 << self.bits - 1).any())

    @property
    def gguf_type(self) -> int:
        return PRIVATE_TYPES + 0x1000 * self.bits + 0x800 * self.zero_points + 0x400 * self.of_row + self.block

    def encode(self) -> Array:
        """uint8 [N, bytes of a row]: blocks of a group format (docs/reference/formats.md)."""
        n, k = self.codes.shape
        blocks = k // self.block
        repeated = blocks // self.scales.shape[1]
        parts = [np.repeat(self.scales.astype("<f2"), repeated, axis=1).view(np.uint8).reshape(n, blocks, 2)]
        if self.zero_points:
            parts.append(np.repeat(self.zeros, repeated, axis=1)[..., None])
        codes = self.codes.reshape(n, blocks, self.block)
        if self.bits == 8:
            parts.append(codes ^ np.uint8(0x80))
        else:
            parts += [np.packbits(codes >> bit & 1, axis=-1, bitorder="little") for bit in range(self.bits)]
        return np.concatenate(parts, axis=-1).reshape(n, -1)


def read_matrix(tensors: dict[str, Tensor], name: str, shape: tuple[int, int], settings: Settings) -> Matrix:
    """`name` without ".qweight"; shape: (N, K)."""
    n, k = shape
    bits, per_word = settings.bits, 32 // settings.bits
    group = settings.group or k
    weight = tensors[f"{name}.qweight"]
    if k % group or k % SMALLEST_BLOCK or n % per_word:
        raise weight.fail(f"{n} outputs and {k} inputs are no whole number of groups of {group}, of {SMALLEST_BLOCK} inputs, or of words "
                          f"of {per_word} outputs")
    packed = _load(tensors, f"{name}.qweight", ("I32",), (k // per_word, n))
    codes = np.empty((k, n), np.uint8)
    for i in range(per_word):
        codes[i::per_word] = packed.view(np.uint32) >> bits * i & (1 << bits) - 1
    stored = np.empty((k // group, n), np.uint8)
    packed = _load(tensors, f"{name}.qzeros", ("I32",), (k // group, n // per_word))
    for i in range(per_word):
        stored[:, i::per_word] = packed.view(np.uint32) >> bits * i & (1 << bits) - 1
    _check_order(tensors, name, k, group, settings)
    zeros = _zeros(tensors[f"{name}.qzeros"], stored, settings)
    return Matrix(bits, np.ascontiguousarray(codes.T), _scales(tensors, f"{name}.scales", (k // group, n)).T, zeros.T, settings.group == 0)


def _load(tensors: dict[str, Tensor], name: str, types: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    return tensor_of(tensors, name, types, shape).load()


def tensor_of(tensors: dict[str, Tensor], name: str, types: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
    tensor = tensors.get(name)
    if tensor is None:
        folder = next(iter(tensors.values())).path.parent
        raise ConfigError(f"{folder}: {name}: the tensor is missing")
    if tensor.type not in types or tensor.shape != shape:
        raise tensor.fail(f"is {tensor.type} {list(tensor.shape)} (expected {' or '.join(types)} {list(shape)})")
    return tensor


def _scales(tensors: dict[str, Tensor], name: str, shape: tuple[int, int]) -> Array:
    tensor = tensor_of(tensors, name, ("F16", "BF16", "F32"), shape)
    values = tensor.floats()
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    bad = ~np.isfinite(halves) | (halves.astype(np.float32) != values)
    if bad.any():
        group, output = np.argwhere(bad)[0]
        raise tensor.fail(f"group {group}, output {output} has the scale {values[group, output]}, which float16 can not hold")
    return halves


def _check_order(tensors: dict[str, Tensor], name: str, k: int, group: int, settings: Settings) -> None:
    key = f"{name}.g_idx"
    if key not in tensors:
        if settings.act_order and settings.group:
            raise ConfigError(f"{tensors[f'{name}.qweight'].path}: {key}: the tensor is missing, and {settings.path} has desc_act: true, "
                              "with which any input may be of any group")
        return
    found, expected = _load(tensors, key, ("I32",), (k,)), np.arange(k) // group
    if (found != expected).any():
        at = int(np.argmax(found != expected))
        raise tensors[key].fail(f"input {at} is of group {found[at]} (expected {expected[at]}): groups whose inputs do not lie side "
                                "by side (act order, desc_act) are not supported (quantise with desc_act: false or static_groups: true)")


def _zeros(tensor: Tensor, stored: Array, settings: Settings) -> Array:
    """Zero points as they are meant. Those of symmetric files are half of the codes' range. Some tools write them whole under the name
    "gptq", so these are known by their value."""
    half, top = 1 << settings.bits - 1, (1 << settings.bits) - 1
    if settings.symmetric:
        if settings.less_one and (stored == half - 1).all() or (stored == half).all():
            return np.full_like(stored, half)
        raise tensor.fail(f"holds zero points other than {half}, and {settings.path} has sym: true (expected {half}, stored as "
                          f"{half - 1} or {half} throughout)")
    if not settings.less_one:
        return stored
    if (stored == top).any():
        group, output = np.argwhere(stored == top)[0]
        raise tensor.fail(f"group {group}, output {output} stores the zero point {top}, which tools read as 0 or as {top + 1} (expected "
                          f"up to {top - 1}, or checkpoint_format: gptq_v2)")
    return stored + np.uint8(1)
