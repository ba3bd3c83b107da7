"""Names of earlier keys: those that the engine knows, and where it puts them."""
import json
import re

import pytest
from conftest import ROOT
from vitro.base.engine_keys import MOVED, RENAMED, present_name
from vitro.base.trees import flatten
from vitro.running import experiments


def test_the_list_is_that_of_the_engine():
    text = (ROOT / "engine/app/old_engine_keys.cpp").read_text()
    lists = [dict(re.findall(r'\{"([^"]+)", "([^"]+)"\}', text.partition(name)[2].partition(";")[0])) for name in ("kRenamed{{", "kMoved{")]
    assert lists == [RENAMED, MOVED] and len(RENAMED) > 20


@pytest.mark.parametrize("key, value, name", [
    ("engine.units", ["cpu1"], "engine.placement.units"), ("engine.clusters.staging", "8 MiB", "engine.weights.staging"),
    ("engine.clusters.io_depth", 7, "engine.ffn.clusters.io_depth"), ("engine.weights.read_ahead", "64 KiB", "engine.weights.read_ahead"),
    ("workload.seed", 5, "workload.seed")])
def test_a_resolved_experiment_has_the_value_under_the_present_name(native, key, value, name):
    base = "neuron_cluster" if "cluster" in key else "mmap"
    resolved = experiments.compose(ROOT / "experiments/quickstart.yaml", overrides={"engine.policy": base, key: value}).resolved
    assert present_name(key) == name and flatten(json.loads(json.dumps(resolved)))[name] == value
