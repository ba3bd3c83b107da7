"""Tokenizers as exporters lay them beside a model: SentencePiece's tokenizer.model (a protocol buffer), or a byte-level BPE in
tokenizer.json. Answers what GGUF files say of them."""
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .safetensors import json_object

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # token types of GGUF, which are SentencePiece's
_WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {_WORD % "{1,3}": "llama-bpe", _WORD % "": "qwen2"}


@dataclass
class Tokenizer:
    model: str  # "llama" (SentencePiece) or "gpt2" (byte-level BPE)
    tokens: list[str]
    types: list[int]
    scores: list[float] = field(default_factory=list)  # of SentencePiece
    merges: list[str] = field(default_factory=list)  # of BPE
    pattern: str = ""  # of BPE: how text is cut into words
    add_bos: bool = False
    space_prefix: bool = True  # of SentencePiece
    remove_spaces: bool = False

    def pad(self, count: int) -> None:
        """Ids that the embedding has and the tokenizer never makes."""
        for id in range(len(self.tokens), count):
            self.tokens.append(f"[PAD{id}]")
            self.types.append(UNUSED)
            if self.scores:
                self.scores.append(-1e6)


def read_tokenizer(folder: Path, bos: int | None) -> Tokenizer:
    piece, bpe, settings = folder / "tokenizer.model", folder / "tokenizer.json", folder / "tokenizer_config.json"
    stated = json_object(settings).get("add_bos_token") if settings.exists() else None
    if piece.exists():
        made = sentencepiece(piece)
        made.add_bos = bos is not None
    elif bpe.exists():
        made = byte_bpe(bpe, bos)
    else:
        raise ConfigError(f"{folder}: has no tokenizer (expected tokenizer.model or tokenizer.json)")
    if isinstance(stated, bool):
        made.add_bos = stated and bos is not None
    return made


def sentencepiece(path: Path) -> Tokenizer:
    """The pieces: field 1 of the file, each with its text (1), score (2) and type (3). Field 3 says what is done to spaces."""
    made = Tokenizer("llama", [], [])
    for number, piece in _fields(path, path.read_bytes()):
        if number == 3 and isinstance(piece, bytes):
            flags = {3: 1, 4: 1} | {part: value for part, value in _fields(path, piece) if isinstance(value, int)}
            made.space_prefix, made.remove_spaces = bool(flags[3]), bool(flags[4])
        if number != 1 or not isinstance(piece, bytes):
            continue
        text, score, kind = b"", 0.0, NORMAL
        for part, value in _fields(path, piece):
            if part == 1 and isinstance(value, bytes):
                text = value
            elif part == 2 and isinstance(value, float):
                score = value
            elif part == 3 and isinstance(value, int):
                kind = value
        if not NORMAL <= kind <= BYTE:
            raise ConfigError(f"{path}: piece {len(made.tokens)} has the type {kind} (expected 1 to 6)")
        try:
            made.tokens.append(text.decode())
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: piece {len(made.tokens)} is no UTF-8 text") from None
        made.types.append(kind)
        made.scores.append(score)
    if not made.tokens:
        raise ConfigError(f"{path}: has no pieces (expected a model of SentencePiece)")
    return made


def _fields(path: Path, data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: whole numbers, floats of 32 bits, and strings as bytes. Others are passed over."""
    at = 0

    def damaged() -> ConfigError:
        return ConfigError(f"{path}: damaged: a field of its protocol buffer does not end")

    def varint() -> int:
        nonlocal at
        value = 0
        for shift in range(0, 70, 7):
            if at >= len(data):
                raise damaged()
            value |= (data[at] & 127) << shift
            at += 1
            if data[at - 1] < 128:
                return value
        raise damaged()

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        if kind not in (1, 2, 5):
            raise damaged()
        size = varint() if kind == 2 else 8 if kind == 1 else 4
        if size > len(data) - at:
            raise damaged()
        value, at = data[at:at + size], at + size
        if kind != 1:
            yield key >> 3, value if kind == 2 else struct.unpack("<f", value)[0]


def byte_bpe(path: Path, bos: int | None) -> Tokenizer:
    try:
        return _byte_bpe(path, json_object(path), bos)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {error!r} (expected model.vocab, model.merges, added_tokens as the library has them)") from None


def _byte_bpe(path: Path, found: dict[str, Any], bos: int | None) -> Tokenizer:
    model = found["model"]
    steps = found.get("pre_tokenizer") or {}
    steps = steps.get("pretokenizers", [steps])
    if model.get("type", "BPE") != "BPE" or not any(step.get("type") == "ByteLevel" for step in steps):
        raise ConfigError(f"{path}: is no byte-level BPE (expected one, or a tokenizer.model beside it)")
    patterns = [step["pattern"].get("Regex", "") for step in steps if step.get("type") == "Split"]
    if patterns and patterns[0] not in PATTERNS:
        raise ConfigError(f"{path}: pre_tokenizer: the pattern {patterns[0]} is not supported (expected that of Llama 3, Qwen2 or GPT-2)")
    by_id = {int(id): (str(text), NORMAL) for text, id in model["vocab"].items()}
    for added in found.get("added_tokens") or []:
        by_id[int(added["id"])] = str(added["content"]), CONTROL if added.get("special") else USER_DEFINED
    made = Tokenizer("gpt2", [], [], pattern=PATTERNS[patterns[0]] if patterns else "gpt-2")
    for id in range(max(by_id) + 1):
        if id not in by_id:
            made.pad(id + 1)
            continue
        made.tokens.append(by_id[id][0])
        made.types.append(by_id[id][1])
    made.merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    if bos is not None and bos < len(made.tokens):
        made.add_bos = _template_begins_with(found.get("post_processor") or {}, made.tokens[bos])
    return made


def _template_begins_with(processor: dict[str, Any], token: str) -> bool:
    for one in processor.get("processors", [processor]):
        single = one.get("single") or []
        if one.get("type") == "TemplateProcessing" and single and single[0].get("SpecialToken", {}).get("id") == token:
            return True
    return False
