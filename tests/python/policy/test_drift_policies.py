"""Which experts are on which unit, by a rule in Python."""
import sys

import pytest
import pyrules
import vitro
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "python" / "engine"))
from test_moe import large  # noqa: E402


def wrong_loads(layers, experts):
    """As if the last experts were the hottest."""
    rows = [1 + 3 * (e >= 3 * experts // 4) for e in range(experts)]
    return [[row / sum(rows) for row in rows]] * layers


def run(drift, *policies):
    return vitro.run(large(loads=wrong_loads(2, 16), drift=drift), policies=policies, overrides={
        "model.shape.layers": 2, "engine.prefill_chunk": 256, "workload.requests": [{"prompt_tokens": 512}] * 3})


def test_following_in_python_is_following(native):
    own, python, stays = run("follow"), run("py_follow", pyrules.Follow), run("stay")
    assert python["event_hash"] == own["event_hash"] != stays["event_hash"]
    assert python.metric("experts.retiers") == own.metric("experts.retiers") >= 1


def test_shares_that_are_none_are_refused(native):
    with pytest.raises(vitro.RunError, match=r"drift policy half_shares \(HalfShares\): follow\(\) returned .*expected None, or 2 lists"):
        run("half_shares", pyrules.HalfShares)
