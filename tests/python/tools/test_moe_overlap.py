"""tools/moe_overlap.py: how many hot experts two texts have in common."""
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import moe_overlap  # noqa: E402

STORIES = (ROOT / "configs" / "models" / "embedded" / "eval.txt").read_text()


@pytest.mark.parametrize("k, share", [(1, 0), (2, 0.5), (3, 2 / 3), (4, 1)])
def test_of_equals_the_lower_id_is_hot(k, share):
    assert moe_overlap.overlap({0: 5, 1: 5, 2: 1, 3: 0}, {0: 1, 1: 9, 3: 2, 2: 2}, k) == pytest.approx(share)


def test_loads_count_each_token_of_a_text_as_often_as_it_chooses(native):
    layers = moe_overlap.loads(STORIES[:600])
    assert len(layers) == 3 and len({sum(load.values()) for load in layers.values()}) == 1


def test_unseen_text_of_one_kind_has_the_hot_experts_of_the_other_half(native):
    shares = moe_overlap.table({"a": STORIES[:3000], "b": STORIES[3000:6000], "same": STORIES[:3000]}, ks=(2, 4))
    assert shares["a", "same"] == [1, 1]
    assert shares["a", "b"] == shares["b", "a"]
    assert shares["a", "b"][1] > 0.5  # which is chance
