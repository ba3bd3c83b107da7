"""Every way to put the parts of a decoder together, as experiments: what a cell runs, and the run that it has to agree with."""
import itertools
import random
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import vitro
from conftest import ROOT
from drawn_models import MODELS
from families import UNLIKE as OTHERS
from vitro.base.trees import nested

CONFIGS = ROOT / "configs"
FAMILIES = {"mixture": "leading dense", "dense": "normed"}
LAYERS = {"dense": 4, "mixture": 3, "leading dense": 4, "normed": 4}
DEVICE = CONFIGS / "devices" / "oneplus12.yaml"
ACCELERATOR = {"sim": "npu", "host": "cpu1"}  # on host a core stands for the unit: prepared chains in place of graphs
OUTPUTS = 6

# Numeric contract and method -> engine keys, and the scheme that the model is quantised to.
_CODES = "w4g64z"
PRODUCTS = {
    "float": ({}, "f16"),
    "fp16": ({"products.numerics": "fp16"}, "f16"),
    "fp16 tile groups": ({"products.numerics": "fp16"}, "q4_0_tile"),
    "a16": ({"products.numerics": "a16"}, "q4_0"),
    "half sums": ({"products.numerics": "half_sums"}, "f16"),
    "int8 dot": ({"products.numerics": "int8", "products.codes": "dot"}, "q4_0"),
    "int8 outliers": ({"products.numerics": "int8"}, "w4_outliers"),
    "int8 lut": ({"products.numerics": "int8", "products.codes": "lut"}, _CODES),
    "int8 tables": ({"products.numerics": "int8_tables"}, _CODES),
    "int16 tables": ({"products.numerics": "int16_tables"}, _CODES),
} | {f"method {name}": ({"products.numerics": "int8", "products.decode": name, "products.prefill": name}, _CODES)
     for name in ("lut", "fused", "two_level", "scaled_tables", "convert", "convert_in_halves", "copy", "scatter", "uncoalesced", "native",
                  "image", "buffer")}
GPU_PRODUCTS = ("method image", "method buffer")  # of GPUs alone, which are among no common parts
# The matrix leaves these to the pairs and the draws.
PAIRED_PRODUCTS = (*GPU_PRODUCTS, "half sums", "int8 outliers", "int16 tables", "method two_level", "method scaled_tables",
                   "method convert_in_halves")
# Methods of an NPU alone, which cores pass over: in the matrix where one computes. The pairs hold each of them with everything else.
NPU_PRODUCTS = tuple(f"method {name}" for name in ("fused", "convert", "copy", "scatter", "uncoalesced", "native"))

KV = {"dram": {}, "flash": {"kv.dram_tokens": 4, "kv.block_tokens": 4}, "int8_fp8": {"kv.format": "int8_fp8"},
      "staged": {"kv.format": "int8_fp8", "placement.kv": "staged"},
      "int4_fp8": {"kv.format": "int4_fp8", "kv.dram_tokens": 4, "kv.block_tokens": 4},
      "e5m2 staged": {"kv.format": "int4_e5m2", "placement.kv": "staged"}}
STAGED = tuple(kv for kv, keys in KV.items() if keys.get("placement.kv") == "staged")
PAIRED_KV = (*STAGED, "int4_fp8")  # the matrix leaves them to the pairs and the draws

JUDGED = {"scorer": {"kind": "model", "gguf": str(MODELS["dense"]), "token": "He", "against": "She"}}
_TURNS = [{"keep_as": "a"}, {"prompt": "The girl went", "keep_as": "b"}, {"continue": "a", "prompt": "Then the cat", "keep_as": "a"},
          {"continue": "b", "prompt": "Her mother"}, {"continue": "a", "prompt": "They were"}]
WORKLOADS = {
    "one": {},
    "kept": {"requests": _TURNS},
    "kept in flash": {"requests": _TURNS, "kept_in": "flash"},
    "restored": {"restore_kv": "of the same composition"},  # outcome() makes the file
    "four": {"batch": 4},
    "best of 2 by a reward model": {"sampling": {"temperature": 1}, "scaling": {"method": "best_of_n", "samples": 2} | JUDGED},
    "beam": {"sampling": {"temperature": 1},
             "scaling": {"method": "beam_search", "samples": 4, "width": 2, "step": {"max_tokens": 3},
                         "scorer": {"kind": "log_probability"}}},
}
PAIRED_WORKLOADS = ("kept", "kept in flash", "restored")
CLUSTERS = ("clusters", "hot", "llmflash", "llmflash window", "clusters in dram", "every neuron", "hot apart", "bundled experts", "prompts",
            "streamed hot")
# Others with one more key: a graph for each launch of experts, and moves and parts of norms and attention that a core computes.
VARIED = {"exact experts": ("paged experts", {"ffn.experts.shapes": "exact"}), "unfused layers": ("layers", {"graph.fuse": "none"})}
EXPERTS = ("experts", "paged experts", "streamed experts", "bundled experts", "cached experts", "expert cache", "no look-ahead",
           "exact experts")
HALF = ("streamed", "every neuron", "paged experts", "streamed experts", "bundled experts", "hot apart", "llmflash window",
        "cached experts", "expert cache", "no look-ahead", "exact experts", "streamed hot")  # of FFNs
APART = {"weights.bundle": False, "weights.two_phases": False, "weights.eviction": "none"}
SPARE = "cpu7"  # of the simulated phone, at work in no cell
ON_NPU = ("hot", "layers", "experts")  # of the common parts
GPU = ("core and gpu", "gpu matmuls")  # on host an OpenCL device
COMMON = ("dense", "paged", "clusters", "hot", "llmflash", "layers", "experts")  # the matrix holds these with everything else
PARTS = (*COMMON, "streamed", "cores and unit", "clusters in dram", "every neuron", "paged experts", "streamed experts",
         "bundled experts", "hot apart", "llmflash window", "prompts", "cached experts", "expert cache", "no look-ahead",
         "embedding in flash", "hot by layer", "streamed hot", *VARIED, *GPU)
OF_OTHERS = (*CLUSTERS, "paged", "hot by layer", "experts")  # that the other families run


@dataclass(frozen=True)
class Cell:
    parts: str
    products: str
    kv: str
    workload: str
    model: str
    machine: str

    def __str__(self):
        return "-".join((self.parts, self.products, self.kv, self.workload, self.model, self.machine)).replace(" ", "_")


def all_cells():
    """-> every cell but those that a part's own law refuses, since a dense model has no experts, a GPU's products without one, and those
    without an oracle: no core takes a chunk's attention over staged keys and values as a neural engine does
    (tests/engine/transformer/staged_attention_test.cpp)."""
    cells = [Cell(*values) for values in itertools.product(PARTS, PRODUCTS, KV, WORKLOADS, (*MODELS, *OTHERS), ACCELERATOR)]
    return [cell for cell in cells
            if (cell.parts in GPU or cell.products not in GPU_PRODUCTS)
            and (cell.model in MODELS or cell.parts in OF_OTHERS)
            and (cell.parts not in EXPERTS or (cell.model not in ("dense", "normed")
                                               and not (cell.kv in STAGED and cell.machine == "sim")))]


def pairs():
    """-> few cells that hold every pair of values of any two axes which some cell holds. Greedy, the same each time."""
    cells = all_cells()
    random.Random(1).shuffle(cells)
    values = [np.unique([getattr(cell, field.name) for cell in cells], return_inverse=True)[1] for field in fields(Cell)]
    limit = max(map(np.max, values)) + 1
    two_axes = itertools.combinations(range(len(values)), 2)
    both = np.stack([(number * limit + values[a]) * limit + values[b] for number, (a, b) in enumerate(two_axes)], axis=1)
    of_cell = np.unique(both, return_inverse=True)[1].reshape(both.shape)  # the numbers of a cell's pairs
    holders = np.split(of_cell.ravel().argsort(kind="stable") // of_cell.shape[1], np.bincount(of_cell.ravel()).cumsum()[:-1])
    new = np.full(len(cells), of_cell.shape[1])  # pairs of each cell that no chosen one has
    held = np.zeros(len(holders), bool)
    chosen = []
    while not held.all():
        best = int(new.argmax())
        chosen.append(cells[best])
        for pair in of_cell[best][~held[of_cell[best]]]:
            new[holders[pair]] -= 1
        held[of_cell[best]] = True
    return chosen


def _parts(cell, loads):
    unit = ACCELERATOR[cell.machine]
    if cell.parts in VARIED:
        others, more = VARIED[cell.parts]
        return _parts(replace(cell, parts=others), loads) | more
    if cell.parts == "dense":
        return {"policy": "dense", "threads": 2}
    if cell.parts == "paged":
        return {"policy": "mmap", "threads": 2}
    if cell.parts == "expert cache":  # a mixture operator by operator
        return {"weights.kind": "experts", "threads": 2}
    if cell.parts == "no look-ahead":
        return {"weights.kind": "experts", "weights.eviction": "router", "weights.experts.look_ahead": False,
                "units": ["cpu0", "cpu2", "npu"] if cell.machine == "sim" else ["cpu0", "cpu1"]}
    if cell.parts == "streamed":
        return {"weights.kind": "streamed", "threads": 2}
    if cell.parts == "cores and unit":
        return {"units": ["cpu0", "cpu2", "npu"] if cell.machine == "sim" else ["cpu0", "cpu1"]}
    if cell.parts == "clusters":
        return {"policy": "neuron_cluster", "threads": 2}
    if cell.parts == "clusters in dram":
        return {"policy": "neuron_cluster", "weights.kind": "dram", "threads": 2}
    if cell.parts == "every neuron":
        return {"policy": "neuron_cluster", "ffn.kind": "dense", "threads": 2}
    if cell.parts in ("hot", "hot apart"):
        splits = [{"batch": 1, "hot": "25%", "attention": "25%", "head": "25%"},
                  {"batch": 4, "hot": "50%", "attention": "50%", "head": "0%"}]
        return {"policy": "neuron_cluster", "units": ["cpu0"], "placement.unit": unit, "placement.splits": splits,
                "ffn.clusters.hot_cluster": 64} | (APART if cell.parts == "hot apart" else {})
    if cell.parts == "hot by layer":  # of whole matrices
        rest = [f"{25 * layer}%" for layer in range(1, LAYERS[cell.model])]
        if "mixture" in (cell.model, *(kind for kind, other in FAMILIES.items() if other == cell.model)):
            rest[-1] = [f"{10 * expert}%" for expert in range(8)]
        splits = [{"batch": 1, "hot_by_layer": ["0%", *rest], "attention": "25%", "head": "25%"}, {"batch": 4, "hot": "50%"}]
        return {"policy": "dense", "units": ["cpu0"], "placement.unit": unit, "placement.splits": splits}
    if cell.parts == "streamed hot":
        splits = [{"batch": 1, "hot": "50%", "streamed": "25%", "attention": "25%"}, {"batch": 4, "hot": "25%", "streamed": "10%"}]
        return {"policy": "neuron_cluster", "units": ["cpu0"], "placement.unit": unit, "placement.splits": splits,
                "ffn.clusters.hot_cluster": 16}
    if cell.parts == "embedding in flash":
        return {"policy": "dense", "threads": 2, "weights.embedding": "flash"}
    if cell.parts == "core and gpu":
        return {"units": ["cpu0", "gpu"]}
    if cell.parts == "gpu matmuls":
        return {"policy": "gpu_matmuls", "units": ["cpu0", "gpu"]}
    if cell.parts == "llmflash":
        return {"policy": "llmflash", "threads": 2}
    if cell.parts == "llmflash window":  # as configs/engines/llmflash_paper.yaml: neurons leave though there is room
        return {"policy": "llmflash", "weights.eviction": "window", "weights.window": 2, "threads": 2}
    if cell.parts == "prompts":
        return {"placement.kind": "prompts", "units": ["cpu0"], "placement.unit": unit}
    if cell.parts == "layers":
        return {"policy": "npu_dense", "units": ["cpu0"], "placement.unit": unit}
    kept = {"experts": {}, "paged experts": {"weights.kind": "paged"}, "streamed experts": {"weights.kind": "streamed"},
            "bundled experts": {"weights.kind": "bundles"}, "cached experts": {"weights.kind": "experts"}}[cell.parts]
    return {"policy": "npumoe", "units": ["cpu0", "cpu1"], "placement.graph_units": [unit],
            "ffn.experts.loads": loads, "ffn.experts.overflow": "cpu", "ffn.experts.graph_rows": 4} | kept


def experiment(cell, model, loads=None):
    """model: the file with the weights in the scheme of the cell's products."""
    engine = {"prefill_chunk": 4} | _parts(cell, loads) | PRODUCTS[cell.products][0] | KV[cell.kv]
    return _experiment(cell, model, engine) | ({"memory": {"ffn_in_dram": "50%"}} if cell.parts in HALF else {})


def embedding_apart(cell):
    """Whether its file has an embedding that is no output matrix: another one than the cell's neighbours run."""
    return cell.parts == "embedding in flash"


def like_itself(cell):
    """Whether its oracle is the same composition with a core in place of the accelerator: clusters add partial sums in an order of their
    own, and which heads attend to staged keys and values is the placement's."""
    return cell.parts in CLUSTERS or (cell.kv in STAGED and cell.parts in ("layers", "unfused layers"))


def contract_of(cell):
    """-> the key that says in which contract products are computed, where it is not that of float cores."""
    asked = {key: value for key, value in PRODUCTS[cell.products][0].items() if key == "products.numerics"}
    return asked or ({"products.numerics": "a16"} if cell.parts in GPU else {})  # a GPU's own (docs/design/gpu.md)


def oracle(cell, model, loads=None):
    """The same numeric contracts on cores, everything in DRAM."""
    numerics = contract_of(cell)
    kv = {key: value for key, value in KV[cell.kv].items() if key in ("kv.format", "placement.kv")}
    parts, machine = {"policy": "dense"}, "host"
    if like_itself(cell):
        parts, machine = _parts(cell, loads), "sim"
        parts |= {key: SPARE for key in ("placement.unit",) if key in parts}
        parts |= {key: [SPARE] for key in ("placement.graph_units",) if key in parts}
    cell = Cell(cell.parts, cell.products, cell.kv, cell.workload, cell.model, machine)
    return _experiment(cell, model, {"prefill_chunk": 4} | parts | numerics | kv)


def _experiment(cell, model, engine):
    workload = {"prompt": "Once upon a time there was", "output_tokens": OUTPUTS, "stop_at_eos": False} | WORKLOADS[cell.workload]
    tree = {"experiment": str(cell), "machine": cell.machine, "model": {"gguf": str(model)}, "engine": nested(engine), "workload": workload}
    return tree | ({"device": str(DEVICE)} if cell.machine == "sim" else {})


def outcome(tree):
    """-> what a run decided: the tokens of every sequence or sample, or of every request."""
    if "restore_kv" in tree["workload"]:
        return _in_two_runs(tree)
    result = vitro.run(tree)
    scaling = result.get("scaling")
    if "requests" in result:
        return [request["sequences"] for request in result["requests"]]
    return [sample["tokens"] for sample in scaling["samples"]] if scaling else [result["tokens"], result.get("sequences")]


def _in_two_runs(tree):
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "sequence.kv")
        first, second = ({key: value for key, value in tree["workload"].items() if key != "restore_kv"} for _ in range(2))
        before = vitro.run(tree | {"workload": first | {"save_kv": file}})
        # In int8 the result depends a little on which neurons are in DRAM (docs/design/neuron-clusters.md, limits), and keys of four bits
        # make it five times as much: enough for the first token after the other prompt, whose best two are some 0.1 apart.
        prompt = "She had a" if tree["engine"].get("kv", {}).get("format") == "int4_e5m2" else "They were"
        after = vitro.run(tree | {"workload": second | {"restore_kv": file, "prompt": prompt}})
    return [before["tokens"], after["tokens"]]
