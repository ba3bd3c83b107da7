"""A budget that is too small is refused with the smallest that works: it does, and a granule less does not."""
import re

import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError, Overtime
from vitro.execute.task import Limits
from vitro.running import budgets, experiments

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
SHORT = {"workload.output_tokens": 12}
JUDGE = ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf"
MIXTURE = {"model": {"gguf": str(ROOT / "configs/models/embedded/stories-moe-6m.f16.gguf")}}
FLASH_KV = {"engine.policy": "dense", "engine.kv.dram_tokens": 0, "engine.kv.block_tokens": 16, "engine.prefill_chunk": 16,
            "workload.prompt_tokens": 180, "workload.prompt": None, "workload.output_tokens": 40}
SET_UPS = {
    "dense": {"engine.policy": "dense"}, "paged": {"engine.policy": "mmap"}, "clusters": {"engine.policy": "neuron_cluster"},
    "experts": {**MIXTURE, "engine.policy": "dense", "engine.weights.kind": "experts", "engine.weights.eviction": "lru"},
    "keys and values in flash": FLASH_KV,
    "long keys and values": {**FLASH_KV, "engine.kv.dram_tokens": None, "workload.batch": 3},
    "samples by a reward model": {"engine.policy": "dense", "workload.sampling.temperature": 0.8, "workload.scaling": {
        "method": "best_of_n", "samples": 3, "scorer": {"kind": "model", "gguf": str(JUDGE), "token": "a", "context": 64}}},
    "beams": {"engine.policy": "dense", "workload.sampling.temperature": 0.8, "workload.scaling": {
        "method": "beam_search", "samples": 4, "width": 2, "step": {"max_tokens": 4}, "scorer": {"kind": "log_probability"}}},
    "requests that keep": {"workload": {"output_tokens": 12, "seed": 1, "stop_at_eos": False, "requests": [
        {"prompt_tokens": 120, "keep_as": "a"}, {"prompt_tokens": 20, "continue": "a"}]}},
}


def refusal(overrides, machine):
    with pytest.raises(ConfigError) as said:
        vitro.run(QUICKSTART, machine=machine, overrides=overrides)
    return str(said.value)


def smallest(message):
    count, unit = re.search(r"; the smallest that works is (\d+) (KiB|MiB) \(found by trying\)$", message).groups()
    return int(count) * {"KiB": 2 ** 10, "MiB": 2 ** 20}[unit]


@pytest.mark.parametrize("machine, set_up", [*(("sim", name) for name in SET_UPS), ("host", "dense"), ("host", "clusters")])
def test_the_smallest_budget_works_and_a_page_less_is_refused(machine, set_up):
    base = {**({} if "workload" in SET_UPS[set_up] else {"workload.stop_at_eos": False, **SHORT}), **SET_UPS[set_up]}
    told = refusal({**base, "memory.budget": "300 KiB"}, machine)
    assert "memory.budget: 300 KiB is too little: " in told
    least = smallest(told)
    result = vitro.run(QUICKSTART, machine=machine, overrides={**base, "memory.budget": f"{least} B"})
    assert least - 2 ** 20 < result.metric("peak_memory_bytes") <= least
    # Where keys and values do not fit into what the set-up left, the run itself finds out, after some tokens.
    assert smallest(refusal({**base, "memory.budget": f"{least - 4096} B"}, machine)) == least


def test_a_model_of_gigabytes_is_tried_to_a_mebibyte():
    exp, base = ROOT / "experiments" / "benchmarks" / "offload_7b.yaml", {"memory.ffn_in_dram": None, "workload.output_tokens": 2}
    with pytest.raises(ConfigError) as said:
        vitro.run(exp, overrides={**base, "memory.budget": "512 MiB"})
    least = smallest(str(said.value))
    assert least % 2 ** 20 == 0
    vitro.run(exp, overrides={**base, "memory.budget": f"{least} B"})
    with pytest.raises(ConfigError, match="smallest that works is"):
        vitro.run(exp, overrides={**base, "memory.budget": f"{least - 2 ** 20} B"})


def test_of_a_long_run_only_a_bound_is_known():
    told = refusal({"engine.policy": "dense", "engine.function": "draw", "engine.numerics": False, "workload.prompt": None,
                    "workload.prompt_tokens": 16, "workload.output_tokens": 1200, "memory.budget": "64 KiB",
                    "model": {"format": "q4_0", "shape": {"family": "llama", "layers": 1, "width": 64, "heads": 2, "ffn": 64, "vocab": 64,
                                                          "context": 4096}}}, "sim")
    assert re.search(r"the smallest that works is at least \d+ [KM]iB \(found by trying with the first tokens alone\)$", told), told


@pytest.mark.parametrize("overrides", [
    {"memory.ffn_in_dram": "30%", "engine.policy": "neuron_cluster", "faults": {"draw": 1, "lease_error": "100%"}},
    {"memory.budget": "64 MiB", "engine.units": ["cpu99"]},
])
def test_what_a_larger_budget_does_not_mend_is_told_as_it_was(overrides):
    with pytest.raises(vitro.VitroError) as said:
        vitro.run(QUICKSTART, machine="sim", overrides=overrides)
    assert "smallest that works" not in str(said.value)


def test_the_command_line_names_file_key_value_and_the_smallest(native):
    text = QUICKSTART.read_text().replace("../configs", f"{ROOT}/configs")
    (native.folder / "exp.yaml").write_text(text + "memory:\n  budget: 300 KiB\n")
    answer = native("run", native.folder / "exp.yaml")
    assert answer.code == 2, answer.err
    assert re.search(r"exp.yaml:\d+: memory.budget: 300 KiB is too little: .*; the smallest that works is \d+ KiB", answer.err), answer.err


def test_bytes_are_written_without_a_rest():
    assert [budgets.written(count) for count in (12 * 2 ** 20, 12324 * 2 ** 10, 5)] == ["12 MiB", "12324 KiB", "5 B"]


def test_a_budget_that_works_has_no_smallest_to_look_for():
    composed = experiments.compose(QUICKSTART, overrides={"memory.budget": "1 GiB"})
    with pytest.raises(vitro.RunError, match="^these do not fit$"), budgets.said(composed.tree, composed.resolved, []):
        raise vitro.RunError("these do not fit")


def test_a_saved_sequence_counts_and_its_file_stays(native, tmp_path):
    file, short = tmp_path / "kv.bin", {"engine.policy": "dense", "workload.output_tokens": 4, "workload.stop_at_eos": False}
    vitro.run(QUICKSTART, machine="sim", overrides={**short, "workload.save_kv": str(file)})
    saved = file.read_bytes()
    more = {**short, "workload.restore_kv": str(file), "workload.save_kv": str(file), "workload.prompt": " and"}
    least = smallest(refusal({**more, "memory.budget": "300 KiB"}, "sim"))
    assert file.read_bytes() == saved
    vitro.run(QUICKSTART, machine="sim", overrides={**more, "memory.budget": f"{least} B"})
    file.write_bytes(saved)
    assert smallest(refusal({**more, "memory.budget": f"{least - 4096} B"}, "sim")) == least


def share_in(message):
    return float(re.search(r"the smallest that works is ([\d.]+)% .found by trying", message).group(1))


def test_the_smallest_share_of_the_ffn_is_named():
    base = {**MIXTURE, **SHORT, "workload.stop_at_eos": False, "engine.policy": "dense", "engine.weights.kind": "experts",
            "engine.weights.eviction": "lru"}
    told = refusal({**base, "memory.ffn_in_dram": "1%"}, "sim")
    assert "memory.ffn_in_dram: 1% is too little: " in told
    least = share_in(told)
    assert 1 < least < 100
    vitro.run(QUICKSTART, machine="sim", overrides={**base, "memory.ffn_in_dram": f"{least}%"})
    assert share_in(refusal({**base, "memory.ffn_in_dram": f"{least - 0.1:.1f}%"}, "sim")) == least


def test_where_no_share_does_the_memory_that_there_has_to_be_is_named():
    base = {**SHORT, "workload.stop_at_eos": False, "engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%"}
    told = refusal({**base, "device.dram.available": "5 MiB"}, "sim")
    assert "memory.budget: the 5 MiB that there are is too little: " in told
    least = smallest(told)
    assert least > 5 * 2 ** 20
    vitro.run(QUICKSTART, machine="sim", overrides={**base, "device.dram.available": f"{least} B"})
    assert smallest(refusal({**base, "device.dram.available": f"{least - 4096} B"}, "sim")) == least


def test_points_of_a_sweep_say_it_and_those_that_differ_in_budget_or_seed_are_tried_once(native, tmp_path, monkeypatch):
    found, call = [], budgets.process.call

    def counted(function, *args, **more):
        found.append(function)
        return call(function, *args, **more)
    monkeypatch.setattr(budgets.process, "call", counted)
    (tmp_path / "study.yaml").write_text(f"include: {QUICKSTART}\nsweep:\n  engine.policy: [dense]\n"
                                         "  memory.budget: [300 KiB, 1 MiB, 64 MiB]\n  workload.seed: [1, 2]\n")
    frame = vitro.sweep(tmp_path / "study.yaml", overrides=SHORT)
    assert found.count("smallest_budget") == 1
    errors = [error for error in frame["error"] if isinstance(error, str)]
    assert len(errors) == 4 and len({smallest(error) for error in errors}) == 1
    assert [error.split(" is too little")[0].rpartition(": ")[2] for error in errors] == ["300 KiB"] * 2 + ["1 MiB"] * 2


FOUND = {"budget": 2 ** 22, "tried": 2 ** 20, "at_least": False}
SHARE = {"budget": 0, "tried": 2 ** 30, "share": 0.4, "at_least": False}


@pytest.mark.parametrize("answer, points, trials, said", [
    (FOUND, [{"budget": "1 MiB"}, {"budget": "2 MiB"}, {"budget": "4 MiB"}], 1, [True, True, False]),
    (FOUND, [{}, {}, {"budget": "1 MiB"}, {}], 2, [True] * 4),
    (None, [{"budget": "2 MiB"}, {"budget": "2 MiB"}, {"budget": "4 MiB"}], 1, [False] * 3),
    (None, [{"budget": "4 MiB"}, {"budget": "2 MiB"}, {"budget": "2 MiB"}], 2, [False] * 3),
    (None, [{}, {}], 1, [False] * 2),
    (vitro.RunError("fails"), [{"budget": "4 MiB"}, {"budget": "2 MiB"}, {"budget": "8 MiB"}], 1, [False] * 3),
    (vitro.RunError("fails"), [{"ffn_in_dram": "10%"}] * 3, 1, [False] * 3),
    (Overtime("too long"), [{"budget": "4 MiB"}, {"budget": "2 MiB"}], 1, [False] * 2),
    (SHARE, [{"ffn_in_dram": "10%"}, {"ffn_in_dram": "10%"}, {"ffn_in_dram": "20%"}], 2, [True] * 3),
    (SHARE, [{"ffn_in_dram": "10%", "budget": "4 MiB"}] * 2 + [{"ffn_in_dram": "10%", "budget": "8 MiB"}], 2, [True] * 3),
], ids=["found", "no budget", "enough", "a smaller one", "nothing", "failed", "share failed", "overtime", "share", "share of a budget"])
def test_what_was_tried_is_remembered(monkeypatch, answer, points, trials, said):
    asked = []

    def call(function, tree, *, attached, limit_s):
        asked.append((function, limit_s))
        if isinstance(answer, Exception):
            raise answer
        return answer
    monkeypatch.setattr(budgets.process, "call", call)
    known, error = budgets.Budgets(7.5), vitro.RunError("these do not fit")
    told = [known.told(error, "tree", {"memory": memory, "workload": {"seed": seed}}, []) for seed, memory in enumerate(points)]
    assert asked == [("smallest_budget", 7.5)] * trials and [one is not error for one in told] == said


def test_points_of_a_sweep_limit_the_trials_as_themselves(native, tmp_path, monkeypatch):
    limits, call = [], budgets.process.call

    def counted(function, *args, **more):
        limits.append(more.get("limit_s") if function == "smallest_budget" else None)
        return call(function, *args, **more)
    monkeypatch.setattr(budgets.process, "call", counted)
    (tmp_path / "study.yaml").write_text(f"include: {QUICKSTART}\nsweep:\n  memory.budget: [300 KiB, 64 MiB]\n")
    frame = vitro.sweep(tmp_path / "study.yaml", overrides=SHORT | {"engine.policy": "dense"}, limits=Limits(300))
    assert [limit for limit in limits if limit] == [300] and "smallest that works is" in frame["error"][0]
