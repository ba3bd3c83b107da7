"""Tiers that fit the load, the graphs that units hold, and which rows an expert without room gives up."""
import oracle
import pytest
import vitro
from conftest import ROOT
from test_moe import MODEL, TEXT, calibration, dense, experiment, large  # noqa: F401: fixtures
from vitro.errors import ConfigError

QWEN3 = str(ROOT / "configs" / "models" / "qwen3-30b-a3b.yaml")
AS_PUBLISHED = {"base_of": "rows", "max_drop": "100%", "max_padding": "100%"}


def run(overrides=None, layers=2, model=None, **moe):
    given = large(**moe)
    if model:
        given["model"] = model
    return vitro.run(given, overrides={"model.shape.layers": layers, "engine.prefill_chunk": 256, **(overrides or {})})


def experts(*arguments, **named):
    return run(*arguments, **named)["metrics"]["experts"]


def test_a_mixture_of_many_experts_drops_what_it_may_and_no_more():
    fits = experts(model=QWEN3)
    assert fits["token_drop_rate"] <= 0.12 and fits["padded_share"] <= 0.52  # one chunk: a fifth above the bound by chance
    assert fits["expected_overflow"] <= 0.1
    published = experts(model=QWEN3, **AS_PUBLISHED)
    assert published["token_drop_rate"] > 0.2
    assert published["token_drop_rate"] == pytest.approx(published["expected_overflow"], rel=0.2), "a result says what a setting drops"


def test_a_bound_for_drops_is_met_by_larger_tiers():
    rates = [experts(model=QWEN3, base_of="rows", max_drop=bound, residency="off") for bound in ("100%", "10%", "3%")]
    assert rates[0]["expected_overflow"] > 0.1 >= rates[1]["expected_overflow"] > 0.03 >= rates[2]["expected_overflow"]
    assert rates[0]["padded_share"] < rates[1]["padded_share"] < rates[2]["padded_share"]


def ran_on_cpu(result):
    return [note for note in result["notes"] if "ran on the CPU" in note]


def test_graphs_beyond_what_units_hold_are_left_to_the_cores_by_decision(tmp_path):
    few = {"device.ane.graph_count": 5}
    everything = run(layers=4)
    given = run(few, layers=4)
    silent = run(few, layers=4, residency="off")
    metrics = given["metrics"]["experts"]
    assert not ran_on_cpu(given) and ran_on_cpu(silent)
    assert metrics["graphs"] + 4 <= 10  # four more are the attention's
    assert metrics["graphs"] + metrics["graphs_left_to_cores"] == everything["metrics"]["experts"]["graphs"]
    assert metrics["cpu_share"] > everything["metrics"]["experts"]["cpu_share"]
    assert any("cores compute their experts" in note for note in given["notes"])
    assert not everything["notes"] or not any("beyond what units hold" in note for note in everything["notes"])


def test_graphs_that_do_not_fit_may_come_ahead_of_their_layers():
    few = {"device.ane.graph_count": 6}
    everything, comes = run(layers=4), run(few, layers=4, beyond="load")
    metrics = comes["metrics"]["experts"]
    assert not ran_on_cpu(comes) and metrics["graphs_left_to_cores"] == 0 and metrics["graph_loads"] > 0
    for name in ("token_drop_rate", "padded_share", "cpu_share", "launches_per_layer"):
        assert metrics[name] == pytest.approx(everything["metrics"]["experts"][name]), name
    # A load that takes no time is free, and one that takes longer is waited for.
    times = [run({**few, "device.ane.load": time}, layers=4, beyond="load")["metrics"]["ttft_ms"] for time in ("0 us", "50 ms", "500 ms")]
    assert times[0] < times[1] < times[2]
    assert times[0] == pytest.approx(everything["metrics"]["ttft_ms"], rel=0.05)


def test_a_budget_of_bytes_is_one_for_each_unit():
    assert experts(resident="600 MiB")["graphs"] < experts()["graphs"]
    assert experts(resident="1 MiB")["graphs"] == 0


def test_cores_take_what_they_finish_meanwhile():
    popular, timed, none = (run(cold=cold) for cold in ("25%", "by_time", "0%"))
    assert timed["metrics"]["ttft_ms"] < popular["metrics"]["ttft_ms"] < none["metrics"]["ttft_ms"]
    one_core = run({"engine.units": ["cpu0"]}, cold="by_time")
    assert one_core["metrics"]["experts"]["cpu_share"] < timed["metrics"]["experts"]["cpu_share"]


def wrong_loads(layers, experts):
    """As if the last experts were the hottest."""
    rows = [1 + 3 * (e >= 3 * experts // 4) for e in range(experts)]
    return [[row / sum(rows) for row in rows]] * layers


def test_tiers_follow_a_load_that_is_not_what_was_expected():
    requests = {"workload.requests": [{"prompt_tokens": 512}] * 3}
    metrics = {drift: run(requests, loads=wrong_loads(2, 16), drift=drift)["metrics"]["experts"] for drift in ("stay", "follow")}
    assert metrics["stay"]["retiers"] == 0 and metrics["stay"]["hot_overlap"] <= 0.5
    assert metrics["follow"]["retiers"] >= 1 and metrics["follow"]["hot_overlap"] > metrics["stay"]["hot_overlap"]
    assert metrics["follow"]["token_drop_rate"] + metrics["follow"]["cpu_share"] < (
        metrics["stay"]["token_drop_rate"] + metrics["stay"]["cpu_share"])
    kept = run(requests, drift="follow")["metrics"]["experts"]
    assert kept["retiers"] == 0 and kept["hot_overlap"] >= 0.75, "a calibration that holds is kept"
    # The quarter that was foreseen wrongly is all in one half; what was foreseen right is so in both.
    assert metrics["stay"]["hot_overlap"] < metrics["stay"]["half_overlap"] < kept["half_overlap"] <= 1


def test_following_a_load_changes_no_token():
    requests = [{"prompt": TEXT[begin:begin + 500]} for begin in (1000, 3000, 6000)]

    def tokens(**engine):
        given = experiment("sim", policy="dense")
        given["engine"] |= engine
        result = vitro.run({**given, "workload": {"prompt": "", "requests": requests, "output_tokens": 6, "stop_at_eos": False}})
        return [request["text"] for request in result["requests"]], result["metrics"].get("experts")
    follows, found = tokens(policy="npumoe", moe={"units": ["ane0", "ane1"], "loads": wrong_loads(3, 8), "overflow": "cpu",
                                                  "drift": "follow", "max_drop": "0%", "graph_rows": 16})
    assert found["retiers"] > 0 and follows == tokens()[0]


@pytest.mark.parametrize("machine", ["sim", "host"])
@pytest.mark.parametrize("moe", [{"cold": "by_time"}, {"resident": "1500 KiB"}, {"beyond": "load", "resident": "1500 KiB"},
                                 {"base_of": "rows"}, {"max_drop": "0%"}, {"max_padding": "0%"}, {"cold": "0%", "max_padding": "100%"}])
def test_with_room_on_the_cores_no_choice_changes_a_token(machine, moe, dense, calibration):  # noqa: F811
    result = vitro.run(experiment(machine, calibration, overflow="cpu", **moe))
    assert result["tokens"] == dense and result["metrics"]["experts"]["token_drop_rate"] == 0


def test_the_result_says_what_ranked_the_rows_that_overflowed(calibration):  # noqa: F811
    tight = {"tiers": "off", "residency": "off", "capacity": 16}

    def ranked(**moe):
        return vitro.run(experiment("sim", calibration, **tight, **moe))["metrics"]["experts"]["overflow_ranked_by"]
    assert ranked() == "attention_output" and ranked(rank="router_weight") == "router_weight" and ranked(rank="random") == "random"
    assert experts(tiers="off", residency="off", capacity=16)["overflow_ranked_by"] == "router_weight", "nothing is computed"
    assert vitro.run(experiment("sim", calibration, tiers="off", residency="off", capacity=64))["metrics"]["experts"][
        "overflow_ranked_by"] is None


def test_another_order_of_dropping_gives_other_likelihoods_at_the_same_rate(calibration, tmp_path):  # noqa: F811
    text = tmp_path / "text.txt"
    text.write_text(TEXT[6000:9000])
    drop = {"engine.policy": "npumoe", "engine.units": ["cpu0"], "engine.moe.units": ["cpu1"], "engine.moe.calibration": str(calibration),
            "engine.prefill_chunk": 64, "engine.moe.tiers": "off", "engine.moe.residency": "off", "engine.moe.capacity": 16}
    answers = {rank: vitro.perplexity(MODEL, text, overrides={**drop, "engine.moe.rank": rank})
               for rank in ("attention_output", "router_weight", "random")}
    rates = {answer["experts"]["token_drop_rate"] for answer in answers.values()}
    assert min(rates) > 0.05 and max(rates) - min(rates) < 0.05
    assert len({answer["nll"] for answer in answers.values()}) == 3
    kept = vitro.perplexity(MODEL, text, overrides={**drop, "engine.moe.overflow": "cpu"})
    assert kept["nll"] == pytest.approx(vitro.perplexity(MODEL, text)["nll"], rel=1e-4) and kept["experts"]["token_drop_rate"] == 0


@pytest.mark.parametrize("count, used", [(8, 1), (8, 7), (16, 4), (64, 8), (128, 2), (128, 8)])
def test_mixtures_of_all_sizes_give_the_dense_policys_tokens(count, used, tmp_path):
    model, text = tmp_path / "mixture.gguf", tmp_path / "text.txt"
    shape = oracle.Shape(experts=count, experts_used=used, ffn=32, width=32, heads=2, kv_heads=1)
    oracle.write_gguf(oracle.random_model(shape, count), model)
    text.write_text("Once upon a time there was a mixture of experts " * 4)
    engine = {"policy": "npumoe", "units": ["cpu0"], "prefill_chunk": 16, "moe.units": ["cpu1"], "moe.overflow": "cpu", "moe.cold": "0%",
              "moe.shape_multiple": 2, "moe.loads": wrong_loads(2, count)}
    answer = vitro.perplexity(model, text, overrides={f"engine.{key}": value for key, value in engine.items()})
    assert answer["nll"] == pytest.approx(vitro.perplexity(model, text)["nll"], rel=1e-6)
    assert answer["experts"]["token_drop_rate"] == 0 and 0 < answer["experts"]["cpu_share"] < 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("rank", ["attention_output", "router_weight"])
def test_what_is_dropped_is_what_ranks_lowest(rank, seed, tmp_path):
    """Against NumPy, which computes norms, ranks and drops by itself."""
    shape = oracle.Shape(experts=6, experts_used=2, ffn=64)
    model, text, capacity, chunk = oracle.random_model(shape, seed), "Once upon a time there was a mixture " * 4, 4, 16
    oracle.write_gguf(model, tmp_path / "mixture.gguf")
    (tmp_path / "text.txt").write_text(text)
    engine = {"policy": "npumoe", "units": ["cpu0"], "prefill_chunk": chunk, "moe.units": ["cpu1"], "moe.tiers": "off",
              "moe.residency": "off", "moe.capacity": capacity, "moe.rank": rank, "moe.loads": [[1 / 6] * 6] * shape.layers}
    answer = vitro.perplexity(tmp_path / "mixture.gguf", tmp_path / "text.txt", overrides={f"engine.{k}": v for k, v in engine.items()})
    assert 0.2 < answer["experts"]["token_drop_rate"] < 0.5
    want = oracle.nll(model, text, oracle.Drop(capacity, chunk, rank == "attention_output"))
    assert answer["nll"] == pytest.approx(want, rel=2e-4)
    assert abs(oracle.nll(model, text) - want) > 100 * abs(answer["nll"] - want), "what is dropped matters"


@pytest.mark.parametrize("moe, message", [
    ({"cold": "soon"}, "cold"),
    ({"max_drop": "110%"}, "max_drop"),
    ({"max_padding": "half"}, "max_padding"),
    ({"base_of": "tokens"}, "base_of.*expected one of: pairs, rows"),
    ({"beyond": "cpu"}, "beyond.*expected one of: cores, load"),
    ({"drift": "on"}, "drift.*expected one of: stay, follow"),
    ({"rank": "saliency"}, "rank.*expected one of: attention_output, router_weight, random"),
    ({"resident": "-1 MiB"}, "resident"),
    ({"resident": "many"}, "resident"),
])
def test_what_can_not_be_is_refused(moe, message, calibration):  # noqa: F811
    with pytest.raises(ConfigError, match=message):
        vitro.run(experiment("sim", calibration, **moe))
