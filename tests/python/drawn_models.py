"""Files of the models that configurations are drawn over, each made when it is first asked for."""
from adapters import random_adapter, weights_of, write_adapter
from conftest import ROOT
from families import SHAPES, matrices
from oracle import random_model, write_gguf
from vitro.base import native

EMBEDDED = ROOT / "configs" / "models" / "embedded"
MODELS = {"dense": EMBEDDED / "stories-reglu-3m.f16.gguf", "mixture": EMBEDDED / "stories-moe-6m.f16.gguf"}
ADAPTERS = ("all", "attention")  # what they adapt; of a mixture's FFNs none can be beside the base


class Files:
    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def _made(self, name, make):
        if name not in self.known:
            make(self.folder / name)
            self.known[name] = self.folder / name
        return self.known[name]

    def weights(self, model, scheme, apart=False):
        """-> a file of the model with weights of that scheme. apart: its output matrix is not its embedding."""
        base = MODELS.get(model) or self._made(f"{model}.gguf", lambda path: write_gguf(random_model(SHAPES[model], seed=4), path))
        if scheme == "f16" and not apart:
            return base
        separate = ("bf16", "q8_0") if apart else ("", "")
        layers = "q8_0" if scheme == "f16" else scheme  # what there is needs no scheme

        def quantize(path):  # here: a process for each file would take longer than the file
            native.call("quantize", str(base), str(path), layers, *separate)
        return self._made(f"{model}.{scheme}{'.apart' if apart else ''}.gguf", quantize)

    def adapters(self, model):
        """-> `engine.lora.adapters` of files for it, one of each of ADAPTERS."""
        shape = SHAPES.get(model)

        def file(name, rank):
            def write(path):
                adapter = random_adapter(weights_of(self.weights(model, "f16")), matrices(shape, name), rank=rank, seed=rank)
                write_adapter(adapter, path, shape.arch if shape else "llama")
            return str(self._made(f"{model}.{name}.lora.gguf", write))
        return [{"name": name, "file": file(name, rank), "scale": scale} for name, rank, scale in zip(ADAPTERS, (4, 7), (1, 0.5))]
