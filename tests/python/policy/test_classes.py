"""Policies written in Python decide as the engine's own do, on both machines; what is wrong with one is told by name."""
import re

import pytest
import pyrules
import vitro
from conftest import ROOT

CONFIGS = ROOT / "configs"
DEVICE = CONFIGS / "devices" / "oneplus12.yaml"
EMBEDDED = CONFIGS / "models" / "embedded"
TEXT = (EMBEDDED / "eval.txt").read_text()


def experiment(machine, engine, model="stories-reglu-3m.f16.gguf", **memory):
    base = {"experiment": "policies", "machine": machine, "model": {"gguf": str(EMBEDDED / model)}, "engine": {"threads": 2} | engine,
            "workload": {"prompt": TEXT[2000:2080], "output_tokens": 10, "stop_at_eos": False}}
    return base | ({"memory": memory} if memory else {}) | ({"device": str(DEVICE)} if machine == "sim" else {})


def neurons(machine, eviction, **weights):
    return experiment(machine, {"policy": "neuron_cluster", "weights": {"eviction": eviction} | weights}, ffn_in_dram="25%")


def experts(machine, eviction="lru", **cache):
    given = {"kind": "experts", "eviction": eviction, "experts": {"budget": "2 MB"} | cache}
    return experiment(machine, {"policy": "dense", "prefill_chunk": 16, "weights": given}, "stories-moe-6m.f16.gguf")


def run(given, *policies, **more):
    return vitro.run(given, policies=policies, **more)


@pytest.mark.parametrize("kind", [neurons, experts])
def test_lru_in_python_is_lru(native, kind):
    own, python = run(kind("sim", "lru")), run(kind("sim", "py_lru"), pyrules.PyLru)
    assert python["event_hash"] == own["event_hash"] and python.tokens == own.tokens
    assert run(kind("sim", "py_none"), pyrules.PyNone)["event_hash"] == run(kind("sim", "none"))["event_hash"] != own["event_hash"]


def test_admission_is_apart_from_a_rule_in_python(native):
    hashes = {(rule, admission): run(neurons("sim", rule, admission=admission), pyrules.PyLru)["event_hash"]
              for rule in ("lru", "py_lru") for admission in ("rule", "always", "bypass")}
    for admission in ("rule", "always", "bypass"):
        assert hashes["py_lru", admission] == hashes["lru", admission]
    assert hashes["lru", "rule"] != hashes["lru", "bypass"]


def test_runs_of_one_class_are_equal(native):
    first, second = (run(neurons("sim", "py_lru"), pyrules.PyLru) for _ in range(2))
    assert first["event_hash"] == second["event_hash"]
    told = [[run["policies"][0][key] for key in ("name", "kind", "objects", "calls", "decisions")] for run in (first, second)]
    assert told[0] == told[1]


@pytest.mark.parametrize("kind", [neurons, experts])
def test_tokens_on_host_are_those_of_the_simulation(native, kind):
    tokens = run(kind("sim", "lru")).tokens
    for policy in (pyrules.PyLru, pyrules.PyNone):
        assert run(kind("host", policy.name), policy).tokens == tokens


def test_what_a_rule_lets_go_after_a_token_is_read_again(native):
    kept, gone = run(neurons("sim", "py_lru"), pyrules.PyLru), run(neurons("sim", "tokens"), pyrules.Tokens)
    assert gone.tokens == kept.tokens
    assert gone.metric("cache_hit_rate") < kept.metric("cache_hit_rate")


def test_a_newcomer_can_be_declined_by_what_it_is(native):
    class EvenOnly(pyrules.PyLru):
        def newcomer(self, block):
            self.declines = block % 2 == 1

        def victim(self, held):
            return None if self.declines else super().victim(held)

        def insert(self, block):
            super().insert(block)
            assert len(self.order) <= self.capacity <= self.blocks and self.blocks % self.layers == 0
    few, all_ = run(neurons("sim", "EvenOnly"), EvenOnly), run(neurons("sim", "lru"))
    assert few.tokens == all_.tokens and few["event_hash"] != all_["event_hash"]


def test_what_a_call_costs_is_said(native):
    result = run(neurons("sim", "py_lru"), pyrules.PyLru)
    (told,) = result["policies"]
    assert (told["name"], told["kind"], told["objects"]) == ("py_lru", "eviction", 1) and told["calls"] > 10
    assert told["us_per_call"] * told["calls"] == pytest.approx(told["seconds"] * 1e6) and 0 < told["share_of_run"] < 1
    assert any("the eviction policy py_lru is Python: " in note for note in result["notes"])
    assert run(neurons("sim", "lru"), pyrules.PyLru)["policies"] == []  # it was not asked


def test_what_a_decision_costs_the_phone_is_a_parameter(native):
    device = vitro.Device(DEVICE)
    slower = device.override({"cpu.cache_update_cycles": 1_000_000}, source="a rule that thinks hard")
    given = neurons("sim", "py_lru")
    assert run(given, pyrules.PyLru, device=slower).metric("decode_tokens_per_s") < run(given, pyrules.PyLru).metric("decode_tokens_per_s")


@pytest.mark.parametrize("policy, message", [
    (pyrules.Pinned, r"pinned \(Pinned\): victim\(\) returned \d+ \(expected a block that the layer at hand does not use"),
    (pyrules.Absent, r"absent \(Absent\): victim\(\) returned \d+ \(expected a block that is resident, which this one is not"),
    (pyrules.Odd, r"odd \(Odd\): victim\(\) returned 'seven' \(expected the number of a resident block, or None"),
    (pyrules.Twice, r"twice \(Twice\): next_token\(\) returned \[\d+, \d+\] \(expected a list of resident blocks, each once"),
    (pyrules.Raises, r"raises \(Raises\) failed:.*pyrules\.py.*return self\.no_such_thing.*AttributeError"),
    (pyrules.Signature, r"signature \(Signature\) failed:.*TypeError: .*victim\(\) takes 1 positional argument but 2 were given"),
    (pyrules.Late, r"late \(Late\) failed:.*held\(\) can be asked while victim\(\) runs"),
])
@pytest.mark.parametrize("machine", ["sim", "host"])
def test_nonsense_is_told_by_name(native, machine, policy, message):
    with pytest.raises(vitro.RunError, match="(?s)the eviction policy " + message):
        run(neurons(machine, policy.name), policy)


@pytest.mark.parametrize("answer", [-1, 2 ** 70, 1.5, 10 ** 9, True, False])
def test_a_number_that_is_no_block_is_refused(native, answer):
    class Wild(pyrules.Odd):
        pass
    Wild.answer = answer
    with pytest.raises(vitro.RunError, match=r"the eviction policy Wild: victim\(\) returned .* \(expected the number of a resident block"):
        run(neurons("sim", "Wild"), Wild)


def test_experts_refuse_nonsense_as_well(native):
    for policy in (pyrules.Pinned, pyrules.Absent, pyrules.Raises):
        with pytest.raises(vitro.RunError, match=f"the eviction policy {policy.name} "):
            run(experts("sim", policy.name), policy)


def test_a_complaint_of_a_policy_about_parameters_is_the_users(native):
    with pytest.raises(vitro.ConfigError, match=r"^<dict>:\d+: engine\.weights: this rule wants more$"):
        run(neurons("sim", "picky"), pyrules.Picky)


def test_a_policy_that_decides_by_something_else_is_found_out(native):
    given = neurons("sim", "moody")
    assert run(given, pyrules.Moody).tokens == run(neurons("sim", "lru")).tokens  # nothing shows
    with pytest.raises(vitro.RunError, match="the eviction policy moody decides differently in two runs of one seed, the first time in "
                                             "decode step [0-9]+"):
        run(given, pyrules.Moody, twice=True)
    assert run(neurons("sim", "py_lru"), pyrules.PyLru, twice=True).tokens


def test_what_is_no_policy_is_refused(native):
    class Mute(vitro.Eviction):
        pass

    class Strange(pyrules.PyLru):
        name = "a b"

    class Taken(pyrules.PyLru):
        name = "lru"

    class Heir(pyrules.PyLru):
        name = pyrules.PyLru.name
    cases = {Heir: "Heir.name is 'py_lru', as that of a class it derives from", int: "is not a policy",
             Mute: "Mute has no victim", Strange: "Strange.name is 'a b'",
             Taken: 'policies: Taken.name is "lru" .expected another name than those of the engine: .*lru'}
    for policy, message in cases.items():
        with pytest.raises(vitro.ConfigError, match=message):
            run(neurons("sim", "lru"), policy)
    with pytest.raises(vitro.ConfigError, match='"py_lru" is there twice'):
        run(neurons("sim", "py_lru"), pyrules.PyLru, pyrules.PyLru)


def test_without_its_class_a_policy_is_unknown(native):
    with pytest.raises(vitro.ConfigError, match='engine.weights.eviction: "py_lru" \\(expected one of: lru'):
        run(neurons("sim", "py_lru"))
    resolved = run(neurons("sim", "py_lru"), pyrules.PyLru)["experiment_resolved"]
    with pytest.raises(vitro.ConfigError, match='nobody brought the eviction policy "py_lru" to this run'):
        vitro.run(resolved)


def kv(machine, keep, **more):
    given = experiment(machine, {"policy": "dense", "kv": {"keep": keep, "dram_tokens": 16, "block_tokens": 8}})
    given["workload"]["output_tokens"] = 40
    return given


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_a_rule_in_python_says_which_keys_and_values_stay(native, machine):
    own, python = run(kv(machine, "recent")), run(kv(machine, "py_recent"), pyrules.Recent)
    assert python.tokens == own.tokens
    for metric in ("bytes_written", "bytes_read"):
        assert python.metric(f"kv_flash.{metric}") == own.metric(f"kv_flash.{metric}") > 0


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_a_rule_in_python_follows_the_budget(native, machine):
    """engine.kv.dram_tokens need not be there: that it follows the budget is known where the experiment is read."""
    own, python = (kv(machine, keep) | {"memory": {"budget": "7.4 MiB"}} for keep in ("budget", "py_budget"))
    for given in (own, python):
        del given["engine"]["kv"]["dram_tokens"]
    own, python = run(own), run(python, pyrules.Room)
    assert python.tokens == own.tokens
    for metric in ("bytes_written", "bytes_read"):
        assert python.metric(f"kv_flash.{metric}") == own.metric(f"kv_flash.{metric}") > 0


def test_answers_about_keys_and_values_are_checked(native):
    cases = {pyrules.Maybe: r"the keep policy maybe \(Maybe\): stays\(\) returned None \(expected True or False, for block 0 of [0-9]+\)",
             pyrules.Lies: r"the keep policy lies \(Lies\): stays\(\) returned False \(expected True for block .*\(\) says that 2 stay",
             pyrules.Much: r"the keep policy much \(Much\): capacity\(\) returned 3 \(expected 0 to 2 blocks\)",
             pyrules.Sure: r"the keep policy sure \(Sure\): capacity\(\) returned True \(expected 0 to 2 blocks\)"}
    for policy, message in cases.items():
        with pytest.raises(vitro.RunError, match=message):
            run(kv("sim", policy.name), policy)


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_a_rule_in_python_says_what_is_read_ahead(native, machine):
    own, python = run(experts(machine)), run(experts(machine, ahead="py_router"), pyrules.Ahead)
    assert python.tokens == own.tokens
    last = run(experts(machine, ahead="last_chosen"), pyrules.LastChosen)
    assert last.tokens == own.tokens and last.metric("expert_cache.read_ahead") > 0
    if machine == "sim":
        assert python["event_hash"] == own["event_hash"] != last["event_hash"]


def test_an_expert_that_there_is_not_is_refused(native):
    with pytest.raises(vitro.RunError, match=r"policy nobody \(Nobody\): want\(\) returned 8 \(expected experts of layer 1, 0 to 7"):
        run(experts("sim", ahead="nobody"), pyrules.Nobody)


def test_the_guide_s_example_runs(native, monkeypatch):
    monkeypatch.chdir(ROOT)
    first, places = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide/policies-in-python.md").read_text(), re.DOTALL)
    scope = {"__name__": "__main__"}
    exec(compile(first, "policies-in-python.md", "exec"), scope)
    assert scope["result"]["policies"][0]["name"] == "OldestFirst"
    exec(compile(places, "policies-in-python.md", "exec"), scope)
    assert scope["prompt"]("Balanced")["policies"][0]["kind"] == "place"
