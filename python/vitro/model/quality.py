"""What quantisation costs a model: likelihoods that are paired over chunks of text, and how far the weights have moved."""
import math
import tempfile
from pathlib import Path

from ..base import inputs, native, process
from ..errors import ConfigError
from . import files


def paired(answer, against):
    """Two answers of files.perplexity() on the same text -> {"difference", "standard_error", "chunks"}.

    The difference of the mean negative log-likelihoods per token; below zero: the first is better. Its standard error is that of a
    ratio of sums over chunks (of differences, of tokens), which takes the chunks as independent draws of text. Two models that
    see the same chunks share what makes a chunk hard, so the error is far below that of either likelihood alone.
    """
    ours, theirs = ([row for row in one["chunks"] if row["tokens"]] for one in (answer, against))
    if [row["tokens"] for row in ours] != [row["tokens"] for row in theirs]:
        raise ConfigError("the models cut the text into different chunks: expected models with the same tokenizer and context length")
    tokens, chunks = [row["tokens"] for row in ours], len(ours)
    gaps = [a["nll"] - b["nll"] for a, b in zip(ours, theirs)]
    difference = sum(gaps) / sum(tokens)
    if chunks < 2:
        return {"difference": difference, "standard_error": None, "chunks": chunks}
    squares = sum((gap - difference * n) ** 2 for gap, n in zip(gaps, tokens))
    return {"difference": difference, "standard_error": math.sqrt(squares * chunks / (chunks - 1)) / sum(tokens), "chunks": chunks}


def compare(model, text, schemes=(), *, overrides=None, embedding="", output="", gptq=None, context=0, progress=None):
    """Quantises a model with each scheme (default: all, or all that GPTQ can round to) and scores the text with each.

    `embedding`, `output`: formats of these two matrices under every scheme. `gptq`: a files.Gptq. `context`: of files.perplexity().
    -> [{"scheme" (None: the model itself), "bits_per_weight", "relative_error", "nll", "difference", "standard_error", "chunks", "bytes"}];
    bits and error are of all matrices but embeddings and routers (the root of squared differences over that of squares), difference and
    its error those of paired() against the model itself. Any two rows can be paired().
    """
    known = [name for name, _ in native.call("quantize_schemes")]
    schemes = list(schemes) or (native.call("gptq_schemes") if gptq else known)
    for scheme in schemes:
        if scheme not in known:
            raise ConfigError(f'--scheme: there is no "{scheme}" (there are {", ".join(known)})')
    base = files.perplexity(model, text, overrides=overrides, context=context)
    arguments = inputs.existing(text), inputs.as_overrides(overrides), "", 0, context
    rows = [_row(None, model, model, base, base)]
    for done, scheme in enumerate(schemes):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            files.quantize(model, path, scheme, embedding=embedding, output=output, gptq=gptq)
            answer = process.call("perplexity", str(path), *arguments, env={"VITRO_CACHE": folder})  # nobody reads that pack again
            rows.append(_row(scheme, path, model, answer, base))
        if progress:
            progress(done + 1, len(schemes))
    return rows


def _row(scheme, path, model, answer, base):
    error = process.call("weight_error", str(path), str(model))
    pair = paired(answer, base)
    return {"scheme": scheme, "bits_per_weight": error["bits_per_weight"], "relative_error": error["relative"], "nll": answer["nll"],
            "difference": pair["difference"], "standard_error": pair["standard_error"], "chunks": answer["chunks"],
            "bytes": Path(path).stat().st_size}
