"""Small random LoRA adapters: GGUF files that the engine reads, and the weights of the oracle with the same adapter in them."""
from dataclasses import dataclass, field

import gguf
import numpy as np
import oracle

ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
FFN = ("ffn_gate", "ffn_up", "ffn_down")


@dataclass
class Adapter:
    rank: int
    alpha: float
    pairs: dict = field(default_factory=dict)  # base tensor -> (A [rank, in], B [out, rank]), with experts first where the base has them

    def scale(self, strength=1.0):
        return strength * (self.alpha / self.rank if self.alpha else 1)


def random_adapter(weights, matrices=ATTENTION + FFN, *, rank=4, alpha=8.0, seed=0, dtype=np.float32, layers=None):
    """weights: {name: array [.., out, in]} of the base. Adapts the named matrices of all layers (or of `layers`)."""
    rng = np.random.default_rng(seed)
    adapter = Adapter(rank, alpha)
    for name, w in weights.items():
        parts = name.split(".")
        if len(parts) != 4 or parts[2] not in matrices or parts[3] != "weight" or (layers is not None and int(parts[1]) not in layers):
            continue
        *outer, rows, columns = w.shape
        spread = 1.5 / np.sqrt(columns)  # as the base's; the product of both is about a third of it
        a, b = rng.standard_normal((*outer, rank, columns)) * spread, rng.standard_normal((*outer, rows, rank)) * 0.1
        adapter.pairs[name] = a.astype(dtype), b.astype(dtype)
    return adapter


def write_adapter(adapter, path, arch="llama", **changed):
    """changed: keys of the header, with _ for . where they have no dot, that get other values (None: left out)."""
    writer = gguf.GGUFWriter(str(path), arch)
    keys = {"general_type": "adapter", "adapter_type": "lora", "adapter_lora_alpha": float(adapter.alpha)} | changed
    for key, value in keys.items():
        if value is not None:
            (writer.add_float32 if isinstance(value, float) else writer.add_string)(key if "." in key else key.replace("_", "."), value)
    for name, (a, b) in adapter.pairs.items():
        writer.add_tensor(f"{name}.lora_a", a)
        writer.add_tensor(f"{name}.lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def merged(model, adapter, strength=1.0):
    """-> the oracle's model with W + scale B A in float64."""
    weights = dict(model.weights)
    for name, (a, b) in adapter.pairs.items():
        weights[name] = weights[name].astype(np.float64) + adapter.scale(strength) * (b.astype(np.float64) @ a.astype(np.float64))
    return oracle.Model(model.shape, weights)


def weights_of(path):
    """-> {name: weights} of a GGUF file, dequantised."""
    from gguf.quants import dequantize
    return {tensor.name: np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32) for tensor in gguf.GGUFReader(path).tensors}


def stored(model, path):
    """-> the oracle's model with the weights that a GGUF file holds."""
    return oracle.Model(model.shape, weights_of(path))
