"""Work that is cut by the cores' rates (MNN-LLM, section 5.2), and how many cores a run takes that leaves it to the engine."""
import pytest

import vitro
from conftest import ROOT

STORIES = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"
ONEPLUS12 = ROOT / "configs" / "devices" / "oneplus12.yaml"

# One prime core, five and two: the uneven clusters of a phone.
UNEVEN = {"experiment": "uneven", "machine": "sim", "device": str(ONEPLUS12), "model": {"gguf": str(STORIES)},
          "workload": {"prompt": "Once upon a time", "output_tokens": 8}}


def run(balance, units, **overrides):
    return vitro.run(UNEVEN | {"engine": {"policy": "dense", "units": [f"cpu{i}" for i in range(units)],
                                          "placement": {"balance": balance}}}, overrides=overrides or None)


@pytest.mark.parametrize("units", [4, 8])
def test_balanced_cores_give_the_same_tokens_and_are_not_slower(units):
    even, rates = run("even", units), run("rates", units)
    assert rates["tokens"] == even["tokens"]
    assert rates.metric("ttft_ms") < even.metric("ttft_ms")  # a prompt is limited by what cores compute


@pytest.mark.all
def test_the_balance_repeats():
    assert run("rates", 8)["event_hash"] == run("rates", 8)["event_hash"]


def test_a_run_that_names_no_cores_takes_as_many_as_help():
    small = vitro.run(UNEVEN | {"machine": "host"})
    assert small["experiment_resolved"]["engine"]["placement"]["threads"] == "auto"
    one = vitro.run(UNEVEN | {"machine": "host"}, overrides={"engine.threads": 1})
    assert small["tokens"] == one["tokens"]
    assert [note for note in small["notes"] if "cores" in note] == [note for note in one["notes"] if "cores" in note]
