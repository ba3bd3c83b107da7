"""LoRA adapters, merged and beside their base, against the NumPy oracle (docs/design/lora.md)."""
import numpy as np
import oracle
import pytest
import vitro
from adapters import ATTENTION, FFN, merged, random_adapter, stored, weights_of, write_adapter
from conftest import ROOT
from oracle import Shape
from vitro.trace import recordings

TEXT = "The quick brown fox jumps over the lazy dog, again and again, until the window has moved past its start. 0123456789"
DEVICE = str(ROOT / "configs" / "devices" / "oneplus12.yaml")
FAMILIES = {
    "llama": (Shape(), ATTENTION + FFN),
    "tied": (Shape(tied=True, kv_heads=4), ATTENTION + FFN),
    "reglu": (Shape(activation="relu"), ATTENTION + FFN),
    "qwen2": (Shape(arch="qwen2", half_split=True, qkv_bias=True, rope_base=1000000.0, eps=1e-6), ATTENTION + FFN),
    "qwen3": (Shape(arch="qwen3", half_split=True, qk_norm=True, key_length=24, rope_base=1000000.0, eps=1e-6), ATTENTION + FFN),
    "bitnet": (Shape(arch="bitnet", half_split=True, sub_norms=True), ATTENTION + FFN),
    "phi3": (Shape(arch="phi3", half_split=True, joined=True, window=7), ("attn_qkv", "attn_output", "ffn_up", "ffn_down")),
    "mixtral": (Shape(experts=4, experts_used=2), ATTENTION),
}


class Case:
    """A base, two adapters of it, and their files."""
    def __init__(self, folder, shape, matrices, seed):
        self.model = oracle.random_model(shape, seed)
        self.base = folder / "base.gguf"
        oracle.write_gguf(self.model, self.base)
        self.text = folder / "text.txt"
        self.text.write_text(TEXT)
        self.adapters = {"first": random_adapter(self.model.weights, matrices, seed=seed),
                         "second": random_adapter(self.model.weights, ("attn_v", "attn_output"), rank=7, alpha=0.0, seed=seed + 1,
                                                  dtype=np.float16)}
        self.files = {name: str(write_adapter(adapter, folder / f"{name}.gguf", shape.arch)) for name, adapter in self.adapters.items()}

    def lora(self, **more):
        return {"adapters": [{"name": name, "file": file} for name, file in self.files.items()]} | more

    def oracle(self, name):
        return self.model if name == "none" else merged(self.model, self.adapters[name])

    def run(self, workload, machine="host", model=None, **engine):
        tree = {"experiment": "lora", "machine": machine, "model": {"gguf": str(model or self.base)},
                "engine": {"lora": self.lora()} | engine,
                "workload": {"prompt": "The quick", "output_tokens": 8, "stop_at_eos": False} | workload}
        return vitro.run(tree | ({"device": DEVICE} if machine == "sim" else {}))

    def nll(self, name, model=None, *more):
        entries = ", ".join(f"{{name: {n}, file: {file}}}" for n, file in self.files.items())
        return vitro.perplexity(model or self.base, self.text,
                                overrides=[f"engine.lora.adapters=[{entries}]", f"workload.adapter={name}", *more])["nll"]


@pytest.fixture(scope="module", params=FAMILIES, ids=str)
def family(request, tmp_path_factory, has_native):
    shape, matrices = FAMILIES[request.param]
    return Case(tmp_path_factory.mktemp(request.param), shape, matrices, seed=len(request.param))


@pytest.fixture(scope="module")
def llama(tmp_path_factory, has_native):
    return Case(tmp_path_factory.mktemp("llama"), Shape(), ATTENTION + FFN, seed=21)


@pytest.fixture(scope="module")
def reglu(tmp_path_factory, has_native):
    return Case(tmp_path_factory.mktemp("reglu"), Shape(activation="relu", ffn=256), ATTENTION + FFN, seed=31)


@pytest.mark.parametrize("name", ["first", "second"])
def test_likelihoods_match_the_oracle_with_the_adapter_in_its_weights(family, name):
    expected = oracle.nll(family.oracle(name), TEXT)
    assert abs(expected - oracle.nll(family.model, TEXT)) > 1e-2  # else the adapter would not be seen
    assert family.nll(name) == pytest.approx(expected, abs=1e-4)


def test_the_order_of_multiplication_and_the_strength_keep_the_oracles_likelihood(llama):
    expected = oracle.nll(llama.oracle("first"), TEXT)
    assert llama.nll("first", None, "engine.lora.order=ab_x", "engine.threads=2") == pytest.approx(expected, abs=1e-4)
    half = oracle.nll(merged(llama.model, llama.adapters["first"], 0.5), TEXT)
    found = vitro.perplexity(llama.base, llama.text, overrides=[
        f"engine.lora.adapters=[{{name: a, file: {llama.files['first']}, scale: 0.5}}]", "workload.adapter=a"])["nll"]
    assert found == pytest.approx(half, abs=1e-4)


def test_sequences_of_a_batch_have_adapters_of_their_own_on_both_machines(family):
    names = ["second", "none", "first", "second"]
    alone = {name: family.run({"adapter": name})["tokens"] for name in set(names)}
    for name, tokens in alone.items():
        expected, gap = oracle.greedy(family.oracle(name), "The quick", 8)
        assert gap > 1e-3, f"choose another seed: a gap of {gap} can not be judged"
        assert tokens == expected
    for machine in ("host", "sim"):
        batch = family.run({"adapter": names, "batch": 4}, machine, threads=2)
        assert batch["sequences"] == [alone[name] for name in names]
        assert batch["tokens"] == alone[names[0]]


def test_an_adapter_that_names_another_base_leaves_a_note(tmp_path, has_native):
    base = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"
    adapter = random_adapter(weights_of(base), ("attn_v",), seed=5)
    file = write_adapter(adapter, tmp_path / "other.gguf", **{"general.base_model.0.name": "Other 9B"})
    result = vitro.run({"experiment": "lora", "machine": "host", "model": {"gguf": str(base)},
                        "engine": {"lora": {"adapters": [{"name": "a", "file": str(file)}]}},
                        "workload": {"prompt": "Once", "output_tokens": 2, "adapter": "a"}})
    assert [note for note in result["notes"] if f"{file} was made for \"Other 9B\"" in note]


@pytest.mark.parametrize("machine", ["host", "sim"])
def test_requests_switch_between_adapters_that_stay_in_memory(llama, machine):
    names = ["first", "none", "second", "first"]
    result = llama.run({"requests": [{"adapter": name} for name in names]}, machine)
    alone = {name: llama.run({"adapter": name})["tokens"] for name in set(names)}
    assert [request["sequences"] for request in result["requests"]] == [[alone[name]] for name in names]
    assert [request["adapters"] for request in result["requests"]] == [[name] for name in names]
    assert result["tokens"] == alone["first"]
    assert result["metrics"]["flash_bytes_read"]["decode"] == 0
    bytes_of_pairs = sum(a.nbytes + b.nbytes for adapter in llama.adapters.values() for a, b in adapter.pairs.values())
    assert bytes_of_pairs <= result["peak_memory"]["adapter"] < bytes_of_pairs + 2 * (1 << 15)  # and the alignment of tensors


@pytest.mark.parametrize("scheme", ["q8_0", "q4_0"])
def test_quantised_bases_keep_their_bits_online_and_are_rounded_again_by_a_merge(llama, tmp_path, scheme):
    base, own, exact = (tmp_path / f"{name}.gguf" for name in ("base", "own", "exact"))
    vitro.quantize(llama.base, base, scheme)
    wanted = merged(stored(llama.model, base), llama.adapters["first"])
    in_float = "engine.products.numerics=float"
    online = llama.nll("first", base, in_float)
    assert online == pytest.approx(oracle.nll(wanted, TEXT), abs=1e-4)
    vitro.merge(base, llama.files["first"], exact, format="f32")
    assert vitro.perplexity(exact, llama.text, overrides=[in_float])["nll"] == pytest.approx(online, abs=2e-4)
    vitro.merge(base, llama.files["first"], own)
    rounded = vitro.perplexity(own, llama.text, overrides=[in_float])["nll"]
    assert rounded == pytest.approx(oracle.nll(stored(llama.model, own), TEXT), abs=1e-4)
    for name in llama.adapters["first"].pairs:
        off, steps = np.abs(stored(llama.model, own).weights[name] - wanted.weights[name]), {"q8_0": 127, "q4_0": 8}[scheme]
        blocks = np.abs(wanted.weights[name]).reshape(-1, 32).max(1, keepdims=True)
        # q4_0 has one code fewer on one side: a whole step there. Scales are binary16.
        assert (off.reshape(-1, 32) <= blocks / steps * ((0.5 if scheme == "q8_0" else 1) + steps * 2.0 ** -11)).all()


@pytest.mark.parametrize("engine", [{"products": {"numerics": "int8"}}, {"products": {"numerics": "fp16"}}, {"policy": "mmap"},
                                    {"weights": {"kind": "streamed"}}], ids=str)
def test_adapters_go_with_every_contract_and_place_of_the_base(llama, tmp_path, engine):
    base = tmp_path / "base.gguf"
    vitro.quantize(llama.base, base, "q8_0")
    batch = llama.run({"adapter": ["first", "none"], "batch": 2}, "host", base, **engine)["sequences"]
    assert batch[0] != batch[1]
    assert batch == llama.run({"adapter": ["first", "none"], "batch": 2}, "sim", base, threads=2, **engine)["sequences"]
    assert batch[0] == llama.run({"adapter": "first"}, "host", base, **engine)["tokens"]


class TestNeuronClusters:
    """FFNs neuron by neuron: which neurons fire depends on the adapter, since it adds to the gates."""

    @pytest.mark.parametrize("engine", [{"clusters": {"pipeline": "none"}}, {"clusters": {"pipeline": "cluster", "neurons": 16}},
                                        {"weights": {"kind": "dram"}}, {"ffn": {"kind": "dense"}},
                                        {"lora.order": "ab_x", "threads": 2}, {"lora.order": "ab_x", "ffn": {"kind": "dense"}}], ids=str)
    def test_likelihood_is_the_oracles(self, reglu, engine):
        overrides = [f"engine.{key}={str(value).replace(chr(39), '')}" for key, value in engine.items()]
        found = reglu.nll("first", None, "engine.policy=neuron_cluster", "engine.prefill_chunk=1", *overrides)
        assert found == pytest.approx(oracle.nll(reglu.oracle("first"), TEXT), abs=1e-4)

    def test_only_neurons_above_the_threshold_count(self, tmp_path, has_native, monkeypatch):
        case, threshold = Case(tmp_path, Shape(), ATTENTION + FFN, seed=33), 0.1
        silu = oracle.act
        monkeypatch.setattr(oracle, "act", lambda name, x: np.where(np.abs(silu(name, x)) > threshold, silu(name, x), 0))
        expected = oracle.nll(case.oracle("first"), TEXT)
        monkeypatch.undo()
        assert abs(expected - oracle.nll(case.oracle("first"), TEXT)) > 1e-3
        found = case.nll("first", None, "engine.policy=neuron_cluster", "engine.prefill_chunk=1", f"engine.clusters.threshold={threshold}")
        assert found == pytest.approx(expected, abs=1e-3)  # a gate at the threshold may fall on the other side in float32

    def test_hot_neurons_on_an_accelerator_have_their_adapters(self, reglu):
        splits = [{"batch": 1, "hot": "25%", "attention": "50%", "head": "50%"}, {"batch": 4, "hot": "50%", "attention": "50%"}]
        hybrid = {"unit": "npu", "cluster": 64, "prefill": True, "splits": splits}
        clusters = {"policy": "neuron_cluster", "units": ["cpu0", "cpu1"]}
        workload = {"adapter": ["first", "none", "second"], "batch": 3}
        expected = [oracle.greedy(reglu.oracle(name), "The quick", 8) for name in workload["adapter"]]
        assert all(gap > 1e-3 for _, gap in expected)
        for engine in ({}, {"hybrid": hybrid}, {"hybrid": hybrid, "lora": reglu.lora(order="ab_x")}):
            assert reglu.run(workload, "sim", **clusters, **engine)["sequences"] == [tokens for tokens, _ in expected]

    def test_a_pack_in_another_order_of_neurons_gives_the_same_tokens(self, reglu, native, tmp_path):
        recording, pack = tmp_path / "fired.vtrc", tmp_path / "hot.vpack"
        answer = native("profile", reglu.base, reglu.text, "-o", recording)
        assert answer.code == 0, answer.err
        answer = native("pack", reglu.base, pack, "--order", recording)
        assert answer.code == 0, answer.err
        tree = {"experiment": "lora", "machine": "host", "model": {"gguf": str(reglu.base), "pack": str(pack)},
                "engine": {"policy": "neuron_cluster", "lora": reglu.lora()},
                "workload": {"prompt": "The quick", "output_tokens": 8, "stop_at_eos": False, "adapter": "first"}}
        assert vitro.run(tree)["tokens"] == oracle.greedy(reglu.oracle("first"), "The quick", 8)[0]


def test_merging_gives_the_weights_that_the_adapter_stands_for(family, tmp_path):
    target = tmp_path / "merged.gguf"
    vitro.merge(family.base, family.files["first"], target, scale=0.5, format="f32")
    assert vitro.perplexity(target, family.text)["nll"] == pytest.approx(
        oracle.nll(merged(family.model, family.adapters["first"], 0.5), TEXT), abs=1e-4)


def test_experts_are_merged(tmp_path, has_native):
    case = Case(tmp_path, Shape(experts=4, experts_used=2), [f"{name}_exps" for name in FFN], seed=5)
    target = tmp_path / "merged.gguf"
    vitro.merge(case.base, case.files["first"], target, format="f32")
    assert vitro.perplexity(target, case.text)["nll"] == pytest.approx(oracle.nll(case.oracle("first"), TEXT), abs=1e-4)


def test_a_record_has_the_neurons_that_fire_beside_an_adapter_of_their_matrices(tmp_path, has_native):
    shape, matrices = FAMILIES["reglu"]
    case = Case(tmp_path, shape, matrices, seed=1)
    active = {}
    for adapter in ("none", "first"):
        recording = tmp_path / f"{adapter}.vtrc"
        case.run({"adapter": adapter}, record=str(recording))
        active[adapter] = [layer["active"] for layer in recordings.firing_statistics(recording, case.base)]
    assert len(active["first"]) == len(active["none"]) > 0
    assert all(share > 0.05 for share in active["first"])


class TestBadInput:
    """One message that names file and tensor or key, exit code 2, no token, nothing half-written."""

    def refused(self, native, case, file, *named):
        lora = f"engine.lora.adapters=[{{name: a, file: {file}}}]"
        native.write("experiment: e\nmachine: host\nworkload: {prompt: The, output_tokens: 2, adapter: a}\n")
        answers = [native("run", "exp.yaml", "--set", f"model={case.base}", "--set", lora, "--json"),
                   native("merge", case.base, file, "merged.gguf")]
        for answer in answers:
            assert answer.code == 2, answer.err
            assert not answer.out
            assert str(file) in answer.err and all(name in answer.err for name in named), answer.err
            assert len(answer.err.strip().splitlines()) == 1
        assert not (native.folder / "merged.gguf").exists()
        assert not list(native.folder.glob("merged*"))

    def test_an_adapter_of_another_base(self, native, llama, tmp_path):
        wide = oracle.random_model(Shape(width=128, heads=4), 1)
        self.refused(native, llama, write_adapter(random_adapter(wide.weights), tmp_path / "wide.gguf"), "blk.0.attn_q.weight.lora_a", "64")
        deep = oracle.random_model(Shape(layers=4), 1)
        file = write_adapter(random_adapter(deep.weights, layers=(3,)), tmp_path / "deep.gguf")
        self.refused(native, llama, file, "blk.3.", "has no tensor")
        self.refused(native, llama, write_adapter(llama.adapters["first"], tmp_path / "q.gguf", "qwen2"), "general.architecture", "qwen2")

    def test_ranks_and_shapes_that_do_not_fit(self, native, llama, tmp_path):
        def changed(name, change):
            adapter = random_adapter(llama.model.weights, ("attn_q",), layers=(0,))
            target, (a, b) = next(iter(adapter.pairs.items()))
            adapter.pairs[target] = change(a, b)
            return write_adapter(adapter, tmp_path / f"{name}.gguf")
        tensor = "blk.0.attn_q.weight.lora_"
        self.refused(native, llama, changed("zero", lambda a, b: (a[:0], b[:, :0])), tensor)
        self.refused(native, llama, changed("ranks", lambda a, b: (a[:3], b)), tensor, "expected one rank")
        self.refused(native, llama, changed("short", lambda a, b: (a, b[:-1])), tensor + "b")
        self.refused(native, llama, changed("narrow", lambda a, b: (a[:, :-1], b)), tensor + "a")

    def test_a_file_that_is_cut_off_or_no_adapter(self, native, llama, tmp_path):
        whole = (tmp_path / "whole.gguf", tmp_path / "cut.gguf")
        write_adapter(llama.adapters["first"], whole[0])
        whole[1].write_bytes(whole[0].read_bytes()[:-100])
        self.refused(native, llama, whole[1], "ends before the data of tensor")
        self.refused(native, llama, llama.base, "general.type")
        self.refused(native, llama, write_adapter(llama.adapters["first"], tmp_path / "loha.gguf", adapter_type="loha"), "adapter.type")

    def test_names_that_are_no_adapters(self, native, llama):
        native.write("experiment: e\nmachine: host\nworkload: {prompt: The, output_tokens: 2, adapter: [frist, none], batch: 2}\n")
        answer = native("run", "exp.yaml", "--set", f"model={llama.base}", "--set",
                        f"engine.lora.adapters=[{{name: first, file: {llama.files['first']}}}]")
        assert answer.code == 2
        assert 'exp.yaml:3: workload.adapter: "frist" is no adapter of engine.lora (expected one of: none, first)' in answer.err


class TestCost:
    """What adapters cost on a simulated phone: Qwen2-7B, rank 8, as MNN-LLM 5.5 has it."""

    def run(self, batch=1, order="a_bx", adapter="none", **more):
        matrices = [*ATTENTION, *FFN]
        shape = {"name": "a", "rank": 8, "alpha": 16, "matrices": matrices} | more
        return vitro.run({
            "experiment": "lora_cost", "machine": "sim", "device": DEVICE, "model": str(ROOT / "configs" / "models" / "qwen2-7b.yaml"),
            "engine": {"numerics": False, "threads": 4, "activations": "int8", "lora": {"adapters": [shape], "order": order}},
            "workload": {"prompt_tokens": 8, "output_tokens": 3, "batch": batch, "adapter": adapter}})

    def test_the_paper_s_order_costs_little_and_the_other_one_a_pass_over_matrices_as_large_as_the_base(self, has_native):
        base, reordered = self.run(), self.run(adapter="a")
        rates = [run["metrics"]["decode_tokens_per_s"] for run in (base, reordered)]
        assert rates[1] < rates[0] < 1.1 * rates[1]
        original = self.run(adapter="a", order="ab_x")
        assert original["metrics"]["decode_tokens_per_s"] < rates[1] / 4
        # rank 8 of 28 layers, binary16: A and B of q, k, v, output (3584 and 512 wide) and of the FFN (18944 wide)
        widths = (3584 + 3584) * 2 + (3584 + 512) * 2 + (3584 + 18944) * 3
        assert base["peak_memory"]["adapter"] == 2 * 8 * 28 * widths
