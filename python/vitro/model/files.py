"""Functions of model files: scored, tokenised, quantised, packed."""
from typing import Any

from ..base import native, process
from ..base.inputs import Overrides, Path, Progress, as_overrides, existing


def perplexity(model: Path, text: Path, *, overrides: Overrides = None, progress: Progress | None = None) -> dict[str, Any]:
    """{"nll", "perplexity", "tokens", "chunks": [{"nll": the sum, "tokens"}]} of the text file under the model."""
    return process.call("perplexity", existing(model), existing(text), as_overrides(overrides), progress=progress)


def tokenize(model: Path, text: str | bytes) -> list[int]:
    """Token ids of `text` (str or bytes), without BOS."""
    return list(native.call("tokenize", existing(model), text.encode() if isinstance(text, str) else text))


def quantize(source: Path, target: Path, scheme: str, *, embedding: str = "", output: str = "", progress: Progress | None = None) -> None:
    """Re-quantises a GGUF file. `embedding`, `output`: formats of these two matrices in place of the scheme's."""
    process.call("quantize", existing(source), str(target), scheme, embedding, output, progress=progress)


def merge(base: Path, adapter: Path, target: Path, *, scale: float = 1, format: str = "", progress: Progress | None = None) -> None:
    """Merges a LoRA adapter into its base: W + scale * alpha / rank * B A, each matrix in its own format or in `format`."""
    process.call("merge_lora", existing(base), existing(adapter), str(target), float(scale), format, progress=progress)


def pack(source: Path, target: Path, layout: str, *, order: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Packs a GGUF file for reading neuron by neuron or matrix by matrix. -> what lies where in it."""
    return process.call("pack", existing(source), str(target), layout, existing(order) if order else "", progress=progress)


def verify_packed(path: Path, *, progress: Progress | None = None) -> None:
    """Reads all of a packed file; raises ConfigError that says what is damaged."""
    process.call("verify_packed", existing(path), progress=progress)
