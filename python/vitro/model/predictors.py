"""Predictors of firing neurons from the Gate weights alone, and thresholds for activations that are never quite zero.

A predictor of rank r is the best approximation of the Gate matrix W by a product of [ffn, r] and [r, width] over the inputs
that a text makes: the truncated singular value decomposition of W C^1/2, with C the second moments of the inputs, times
C^-1/2 again. Where the product says that a gate is above a threshold, the neuron is predicted to fire. docs/design/predictors.md
has the reasons. Of a text the first half gives C, the next quarter the thresholds, the last the recall that is reported.
"""
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..base import inputs, process
from ..errors import ConfigError
from . import files

SHRINKAGE = 0.01  # of the mean of C's diagonal, added to it: a text has fewer directions than a wide model
RELUS = ("relu", "relu_squared")


@dataclass(frozen=True)
class Options:
    rank: int = 64                 # 0: thresholds alone
    recall: float = 0.98
    sparsity: float | None = None  # share of activations below the threshold of their layer, for SiLU and GELU
    rows: int = 4096               # inputs kept of each FFN


def make_predictors(model, text, target, options=Options(), progress=lambda done, total: None):
    """Writes `target`, the model with predictors (fc1, fc2) and thresholds beside its weights. -> one dict per layer."""
    reader = _open(model)
    activation = _text(reader, "vitro.feed_forward.activation", "silu")
    sparsity = _sparsity(options, activation)
    layers = int(reader.fields[f"{_text(reader, 'general.architecture', 'llama')}.block_count"].contents())
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    with TemporaryDirectory() as folder:
        folder = Path(folder)
        process.call("perplexity", inputs.existing(model), inputs.existing(text), [], str(folder), options.rows)
        added, rows = {"floats": {}, "booleans": {}, "tensors": []}, []
        for layer in range(layers):
            rows.append(_layer(layer, tensors, folder, activation, sparsity, options, added["tensors"]))
            progress(layer + 1, layers)
        if options.rank:
            added["floats"]["vitro.predictor.thresholds"] = [row["predictor_threshold"] for row in rows]
            added["booleans"]["vitro.predictor.relu"] = False
        if sparsity is not None:
            added["floats"]["vitro.feed_forward.thresholds"] = [row["threshold"] for row in rows]
        process.call("extend_gguf", inputs.existing(model), str(target), json.dumps(added))
    return rows


def _layer(layer, tensors, folder, activation, sparsity, options, added):
    """Adds the layer's tensors. -> what is reported of it."""
    inputs = {int(path.name.split(".")[1]): path for path in folder.glob(f"{layer}.*.f32")}
    gates = _gates(tensors, layer)  # [experts, ffn, width]
    width = gates.shape[2]
    inputs = {expert: np.fromfile(path, np.float32).reshape(-1, width) for expert, path in sorted(inputs.items())}
    if (order := tensors.get(f"blk.{layer}.ffn_gate.order")) is not None:
        # What was kept stands as Gate's columns do. A predictor reads its input as the norm left it.
        places = np.argsort(order.data)
        gates = np.take(gates, places, axis=-1)
        inputs = {expert: np.take(x, places, axis=-1) for expert, x in inputs.items()}
    if sum(len(x) for x in inputs.values()) < 8:
        raise ConfigError("predictors: the text is too short: a layer saw fewer than 8 tokens")
    fit, tune, check = ({expert: part(x) for expert, x in inputs.items()} for part in (
        lambda x: x[:len(x) // 2], lambda x: x[len(x) // 2:3 * len(x) // 4], lambda x: x[3 * len(x) // 4:]))

    row = {"layer": layer, "threshold": 0.0, "predictor_threshold": None, "recall": None, "precision": None}
    if sparsity is not None:
        seen = [np.abs(act(x @ gates[max(expert, 0)].T, activation)) for part in (fit, tune) for expert, x in part.items()]
        row["threshold"] = float(np.quantile(np.concatenate([values.ravel() for values in seen]), sparsity))

    def fires(part):
        return [np.abs(act(x @ gates[max(expert, 0)].T, activation)) > row["threshold"] for expert, x in part.items()]
    truth = fires(check)
    row["active"] = _share(sum(int(t.sum()) for t in truth), sum(t.size for t in truth))
    if not options.rank:
        return row

    down, up = low_rank(gates.reshape(-1, width), np.concatenate(list(fit.values())), min(options.rank, width))
    up = up.reshape(*gates.shape[:2], -1)

    def scores(part):
        values = [x @ down.T.astype(np.float32) @ up[max(expert, 0)].T.astype(np.float32) for expert, x in part.items()]
        return values if activation in RELUS else [np.abs(act(v, activation)) for v in values]
    firing = np.concatenate([s[t] for s, t in zip(scores(tune), fires(tune))])
    if firing.size == 0:
        raise ConfigError(f"predictors: no neuron of layer {layer} fires for the text")
    row["predictor_threshold"] = float(np.float32(np.quantile(firing, 1 - options.recall)))
    named = [s > row["predictor_threshold"] for s in scores(check)]
    both = sum(int((n & t).sum()) for n, t in zip(named, truth))
    row["recall"] = _share(both, sum(int(t.sum()) for t in truth))
    row["precision"] = _share(both, sum(int(n.sum()) for n in named))
    for name, values in ((f"blk.{layer}.fc1.weight", down), (f"blk.{layer}.fc2.weight", up)):
        path = folder / name
        values.astype(np.float16).tofile(path)
        dims = [int(d) for d in values.shape[::-1]]
        added.append({"name": name, "dims": dims if len(dims) == 2 or dims[2] > 1 else dims[:2], "format": "f16", "file": str(path)})
    return row


def low_rank(weights, inputs, rank):
    """-> [rank, width], [rows, rank], float16: their product times x is nearest to weights @ x over the inputs."""
    weights, inputs = weights.astype(np.float64), inputs.astype(np.float64)
    moments = inputs.T @ inputs / len(inputs)
    moments[np.diag_indices_from(moments)] += SHRINKAGE * np.trace(moments) / len(moments)
    spread, axes = np.linalg.eigh(moments)
    root, inverse = (axes * spread ** power @ axes.T for power in (0.5, -0.5))
    # The right singular vectors of W C^1/2 are eigenvectors of a matrix of the model's width, however many neurons there are.
    _, vectors = np.linalg.eigh(root @ (weights.T @ weights) @ root)
    vectors = vectors[:, ::-1][:, :rank]
    down, up = vectors.T @ inverse, weights @ root @ vectors
    scale = np.abs(down).max()
    return (down / scale).astype(np.float16), (up * scale).astype(np.float16)


def act(gate, activation):
    """As the engine's kernels define them (engine/ops/contract.hpp)."""
    if activation in RELUS:
        return np.maximum(gate, 0) if activation == "relu" else np.maximum(gate, 0) ** 2
    if activation == "gelu":
        return 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)))
    return gate / (1 + np.exp(-gate))


def _sparsity(options, activation):
    if activation in RELUS:
        if options.sparsity is not None:
            raise ConfigError(f"--sparsity: {activation} has zeros already (expected a model with silu or gelu)")
        return None
    return 0.5 if options.sparsity is None else options.sparsity


def _open(model):
    import gguf
    path = inputs.existing(model)
    with open(path, "rb") as file:
        if file.read(4) == b"PWRI":
            raise ConfigError(f"{path}: has predictors already (expected a model without)")
    files.tokenize(path, "")  # the reader below trusts the file: ours has looked at it then
    return gguf.GGUFReader(path)


def _gates(tensors, layer):
    from gguf.quants import dequantize
    for name in (f"blk.{layer}.ffn_gate.weight", f"blk.{layer}.ffn_gate_exps.weight"):
        if name in tensors:
            tensor = tensors[name]
            values = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
            return values.reshape(-1, *(int(d) for d in tensor.shape[1::-1]))
    raise ConfigError(f"predictors: the model has no blk.{layer}.ffn_gate.weight")


def _text(reader, key, otherwise):
    return reader.fields[key].contents() if key in reader.fields else otherwise


def _share(part, whole):
    return part / whole if whole else None
