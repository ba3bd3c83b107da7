"""Matrices as GPTQ exporters write them, and the same codes, scales and zero points as blocks of a group format.

Of a matrix of N outputs and K inputs: `qweight` int32 [K * bits / 32, N] has codes of consecutive inputs in one word, the first lowest;
`qzeros` int32 [groups, N * bits / 32] zero points of consecutive outputs; `scales` [groups, N]; `g_idx` int32 [K] the group of each input.
A weight is scale * (code - zero point). Files of the format "gptq" hold the zero points less one, those of "gptq_v2" themselves.
"""
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError
from .safetensors import Tensor, json_object

Array = np.ndarray[Any, Any]
PRIVATE_TYPES = 0x56540000  # docs/reference/formats.md, "Type ids"
LARGEST_BLOCK, SMALLEST_BLOCK = 128, 32
LONGEST_PATTERN = 200


@dataclass(frozen=True)
class Settings:
    path: Path
    bits: int
    group: int  # 0: all inputs of an output
    symmetric: bool
    act_order: bool
    less_one: bool  # zero points are stored less one
    by_words: bool = False  # one was taken from whole words, so that a zero point of 0 borrowed from the next one
    round_scales: bool = False  # to float16, where they have more digits
    others: tuple[tuple[str, dict[str, Any]], ...] = ()  # settings of modules whose names match: the first that does is theirs

    def of(self, module: str) -> "Settings":
        """Those of one module: GPTQModel's "dynamic"."""
        for pattern, values in self.others:
            if re.match(pattern.removeprefix("+:"), module):
                return replace(self, **_stated(self.path, values, f"dynamic: {pattern}: "))
        return self


def read_settings(folder: Path, config: dict[str, Any], round_scales: bool = False) -> Settings:
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
    _one_of(path, "quant_method", found.get("quant_method", "gptq"), ("gptq",), "gptq")
    _one_of(path, "pack_dtype", found.get("pack_dtype", "int32"), ("int32",), "int32")
    _one_of(path, "is_marlin_format", found.get("is_marlin_format") or False, (False,), "false: Marlin's order of codes is not read")
    form = _one_of(path, "checkpoint_format", found.get("checkpoint_format", found.get("format", "gptq")), ("gptq", "gptq_v2"),
                   "gptq or gptq_v2")
    found = {"bits": None, "group_size": None} | found
    return Settings(path, less_one=form == "gptq", by_words=_by_words(found), round_scales=round_scales,
                    others=_others(path, found.get("dynamic")), **({"symmetric": True, "act_order": False} | _stated(path, found, "")))


def _one_of(path: Path, key: str, got: Any, known: tuple[Any, ...], expected: str) -> Any:
    if not any(type(got) is type(one) and got == one for one in known):
        raise ConfigError(f"{path}: {key}: {got!r} (expected {expected})")
    return got


def _stated(path: Path, found: dict[str, Any], before: str) -> dict[str, Any]:
    """Fields of Settings for those keys that are there."""
    stated: dict[str, Any] = {}
    if "bits" in found:
        stated["bits"] = _one_of(path, f"{before}bits", found["bits"], (2, 4, 8), "2, 4 or 8; tools do not agree how 3 are packed")
    if "group_size" in found:
        group = found["group_size"]
        if type(group) is not int or (group != -1 and (group < SMALLEST_BLOCK or group % SMALLEST_BLOCK)):
            raise ConfigError(f"{path}: {before}group_size: {group!r} (expected -1 or a multiple of {SMALLEST_BLOCK})")
        stated["group"] = max(group, 0)
    for key, field in (("sym", "symmetric"), ("desc_act", "act_order")):
        if key in found:
            stated[field] = _one_of(path, f"{before}{key}", found[key], (True, False), "true or false")
    return stated


def _by_words(found: dict[str, Any]) -> bool:
    """Whether GPTQModel wrote the file. AutoGPTQ takes one from each zero point by itself."""
    meta = found.get("meta")
    quantizer = meta.get("quantizer") if isinstance(meta, dict) else None
    names = quantizer if isinstance(quantizer, list) else [quantizer]
    return any(isinstance(name, str) and name.startswith("gptqmodel") for name in names)


def _others(path: Path, dynamic: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Modules with "-:" are not quantised: their weights say so themselves."""
    if dynamic is None:
        return ()
    if not isinstance(dynamic, dict):
        raise ConfigError(f"{path}: dynamic: {dynamic!r} (expected an object: settings by regular expression)")
    for pattern, values in dynamic.items():
        try:
            re.compile(pattern.removeprefix("+:").removeprefix("-:"))
        except re.error as error:
            raise ConfigError(f"{path}: dynamic: {pattern!r} is no regular expression: {error}") from None
        if len(pattern) > LONGEST_PATTERN or not isinstance(values, dict):
            raise ConfigError(f"{path}: dynamic: {pattern[:LONGEST_PATTERN]!r}: {values!r} (expected an object, and a pattern of up to "
                              f"{LONGEST_PATTERN} characters)")
    return tuple((pattern.removeprefix("-:"), {} if pattern.startswith("-:") else values) for pattern, values in dynamic.items())


@dataclass(frozen=True)
class Matrix:
    bits: int
    codes: Array  # uint8 [N, K]
    scales: Array  # float16 [N, groups]
    zeros: Array  # uint8 [N, groups]
    of_row: bool  # one group for all inputs, by the file's promise
    groups: Array | None = None  # int32 [K]: the group of each input where they do not lie side by side (act order)

    def rows(self, order: Array) -> "Matrix":
        return replace(self, codes=self.codes[order], scales=self.scales[order], zeros=self.zeros[order])

    def order(self) -> Array | None:
        """int32 [K]: the inputs, group by group, and within a group as they stand; None where they do so already."""
        return None if self.groups is None else np.argsort(self.groups, kind="stable").astype(np.int32)

    def uneven(self) -> str | None:
        """What keeps groups from being runs of as many columns each: values need no such runs."""
        if self.groups is None:
            return None
        group = self.codes.shape[1] // self.scales.shape[1]
        members = np.bincount(self.groups, minlength=self.scales.shape[1])
        at = int(np.argmax(members != group))
        return None if members[at] == group else f"group {at} has {members[at]} inputs (expected {group} in each"

    def sorted(self) -> "Matrix":
        """The same with its columns in that order, so that groups are runs of columns."""
        order = self.order()
        return self if order is None else replace(self, codes=self.codes[:, order], groups=None)

    def values(self) -> Array:
        """float32 [N, K]"""
        k = self.codes.shape[1]
        groups = np.arange(k) // (k // self.scales.shape[1]) if self.groups is None else self.groups
        return self.scales.astype(np.float32)[:, groups] * (self.codes.astype(np.int32) - self.zeros.astype(np.int32)[:, groups])

    @property
    def block(self) -> int:
        return math.gcd(self.codes.shape[1] // self.scales.shape[1], LARGEST_BLOCK)

    @property
    def zero_points(self) -> bool:
        """False where the format without any has the same values."""
        return self.bits == 8 or bool((self.zeros != 1 << self.bits - 1).any())

    @property
    def gguf_type(self) -> int:
        of_row = self.of_row and (self.bits >= 4 or not self.zero_points)  # zero points of rows have four bits or eight
        return PRIVATE_TYPES + 0x1000 * self.bits + 0x800 * self.zero_points + 0x400 * of_row + self.block

    def encode(self) -> Array:
        """uint8 [N, bytes of a row]: blocks of a group format (docs/reference/formats.md). Requires: groups is None."""
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
    settings = settings.of(name)
    n, k = shape
    bits, per_word = settings.bits, 32 // settings.bits
    group = settings.group or k
    weight = tensors[f"{name}.qweight"]
    if k % group or k % SMALLEST_BLOCK or n % per_word:
        raise weight.fail(f"{n} outputs and {k} inputs are no whole number of groups of {group}, of {SMALLEST_BLOCK} inputs, or of words "
                          f"of {per_word} outputs")
    codes = _fields(_load(tensors, f"{name}.qweight", ("I32",), (k // per_word, n)).T, bits)
    words = _load(tensors, f"{name}.qzeros", ("I32",), (k // group, n // per_word)).view(np.uint32)
    groups = _groups(tensors, name, k, group, settings)
    zeros = _zeros(tensors[f"{name}.qzeros"], words, settings)
    return Matrix(bits, codes, _scales(tensors, f"{name}.scales", (k // group, n), settings).T, zeros.T, settings.group == 0, groups)


def _fields(words: Array, bits: int) -> Array:
    """Words [.., M] of 32 bits -> uint8 [.., M * 32 / bits], the lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    fields = np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts & np.uint32((1 << bits) - 1)
    return fields.astype(np.uint8).reshape(*words.shape[:-1], -1)


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


def _scales(tensors: dict[str, Tensor], name: str, shape: tuple[int, int], settings: Settings) -> Array:
    tensor = tensor_of(tensors, name, ("F16", "BF16", "F32"), shape)
    values = tensor.floats()
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    bad = ~np.isfinite(halves)
    if not settings.round_scales:
        bad |= halves.astype(np.float32) != values
    if bad.any():
        group, output = np.argwhere(bad)[0]
        raise tensor.fail(f"group {group}, output {output} has the scale {values[group, output]}, which float16 can not hold "
                          f"(expected scales of float16{'' if settings.round_scales else ', or --round-scales'})")
    return halves


def _groups(tensors: dict[str, Tensor], name: str, k: int, group: int, settings: Settings) -> Array | None:
    """The group of each input; None where those of a group lie side by side."""
    key = f"{name}.g_idx"
    if key not in tensors:
        if settings.act_order and settings.group:
            raise ConfigError(f"{tensors[f'{name}.qweight'].path}: {key}: the tensor is missing, and {settings.path} has desc_act: true, "
                              "with which any input may be of any group (expected the tensor, or desc_act: false)")
        return None
    found = _load(tensors, key, ("I32",), (k,))
    bad = (found < 0) | (found >= k // group)
    if bad.any():
        at = int(np.argmax(bad))
        raise tensors[key].fail(f"input {at} is of group {found[at]} (expected 0 to {k // group - 1})")
    return None if (found == np.arange(k) // group).all() else found


def _zeros(tensor: Tensor, words: Array, settings: Settings) -> Array:
    """Zero points as they are meant, of words as they are stored. Those of symmetric files are half of the codes' range. Some tools write
    them whole under the name "gptq", so these are known by their value."""
    bits = settings.bits
    half, top = 1 << bits - 1, (1 << bits) - 1
    stored = _fields(words, bits)
    if settings.symmetric:
        if settings.less_one and (stored == half - 1).all() or (stored == half).all():
            return np.full_like(stored, half)
        raise tensor.fail(f"holds zero points other than {half}, and {settings.path} has sym: true (expected {half}, stored as "
                          f"{half - 1} or {half} throughout)")
    if not settings.less_one:
        return stored
    if settings.by_words:
        return _fields(words + np.uint32(sum(1 << at for at in range(0, 32, bits))), bits)
    if (stored == top).any():
        group, output = np.argwhere(stored == top)[0]
        raise tensor.fail(f"group {group}, output {output} stores the zero point {top}, which tools read as 0 or as {top + 1} (expected "
                          f"up to {top - 1}, or checkpoint_format: gptq_v2)")
    return stored + np.uint8(1)
