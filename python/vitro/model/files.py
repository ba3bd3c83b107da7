"""Functions of model files: scored, tokenised, quantised, packed."""
import tempfile
from dataclasses import dataclass
from typing import Any

from ..base import native, process
from ..base.inputs import Overrides, Path, Progress, as_overrides, existing
from ..errors import ConfigError


def perplexity(model: Path, text: Path, *, overrides: Overrides = None, context: int = 0,
               progress: Progress | None = None) -> dict[str, Any]:
    """{"nll", "perplexity", "tokens", "chunks": [{"nll": the sum, "tokens"}]} of the text file under the model. The text is scored in
    windows of `context` positions; 0: of the model's context (512 where its file does not state one)."""
    if type(context) is not int or not 0 <= context < 1 << 31 or context == 1:
        raise ConfigError(f"--context: {context!r} (expected 2 or more)")
    return process.call("perplexity", existing(model), existing(text), as_overrides(overrides), "", 0, context, progress=progress)


@dataclass(frozen=True)
class Gptq:
    """How quantize() rounds in place of one weight at a time: by what a text gives the matrices (docs/design/gptq.md)."""
    text: Path               # the calibration text
    damp: float = 0.01       # of the mean of the moments' diagonal, added to it
    act_order: bool = False  # inputs by falling moments, in place of as they stand

    def __post_init__(self) -> None:
        if isinstance(self.damp, bool) or not isinstance(self.damp, (int, float)) or not 0 <= self.damp <= 1:
            raise ConfigError(f"--damp: {self.damp!r} (expected a number from 0 to 1)")


def tokenize(model: Path, text: str | bytes) -> list[int]:
    """Token ids of `text` (str or bytes), without BOS."""
    return list(native.call("tokenize", existing(model), text.encode() if isinstance(text, str) else text))


def quantize(source: Path, target: Path, scheme: str, *, embedding: str = "", output: str = "", gptq: Gptq | None = None,
             progress: Progress | None = None) -> dict[str, Any]:
    """Re-quantises a GGUF file. `embedding`, `output`: formats of these two matrices in place of the scheme's.

    -> with `gptq`: {"tokens": of its text, "window": positions that were computed together, "matrices": that it rounded}; else {}.
    """
    if gptq is None:
        process.call("quantize", existing(source), str(target), scheme, embedding, output, progress=progress)
        return {}
    with tempfile.TemporaryDirectory(prefix="vitro-gptq-") as scratch:
        return process.call("quantize_by_gptq", existing(source), str(target), scheme, embedding, output, existing(gptq.text),
                            float(gptq.damp), gptq.act_order, scratch, progress=progress)


def merge(base: Path, adapter: Path, target: Path, *, scale: float = 1, format: str = "", progress: Progress | None = None) -> None:
    """Merges a LoRA adapter into its base: W + scale * alpha / rank * B A, each matrix in its own format or in `format`."""
    process.call("merge_lora", existing(base), existing(adapter), str(target), float(scale), format, progress=progress)


def pack(source: Path, target: Path, layout: str, *, order: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Packs a GGUF file for reading neuron by neuron or matrix by matrix. -> what lies where in it."""
    return process.call("pack", existing(source), str(target), layout, existing(order) if order else "", progress=progress)


def verify_packed(path: Path, *, progress: Progress | None = None) -> None:
    """Reads all of a packed file; raises ConfigError that says what is damaged."""
    process.call("verify_packed", existing(path), progress=progress)
