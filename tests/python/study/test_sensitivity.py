"""Which assumed parameters matter: what the two methods say of functions whose answer is known, and of a simulated phone."""
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pandas
import pytest
import vitro
from vitro.errors import ConfigError
from vitro.study import store
from vitro.study.sensitivity import Space, _drawn, _effects, sensitivity, space_of

SPACE = Space(device={}, names=["a", "b", "c"], fixed=[], band=0.1)
SHAPE = {"family": "llama", "name": "wide", "layers": 2, "width": 1024, "heads": 8, "kv_heads": 8, "ffn": 1024, "vocab": 512,
         "context": 256, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 64}
EXPERIMENT = """
experiment: small
machine: sim
device: DEVICE
model: MODEL
engine: {policy: dense, units: [cpu0], activations: int8, numerics: false}
workload: {prompt_tokens: 2, output_tokens: 3, stop_at_eos: false}
"""


def effects(method, function, count):
    drawn = _drawn(method, SPACE, count, 1)
    values = [function(*row) for row in drawn]
    return {row["parameter"]: row for row in _effects(method, SPACE, drawn, values, function(1, 1, 1), 1)}


def test_paths_give_the_slopes_of_a_line():
    found = effects("morris", lambda a, b, c: 10 + 2 * a - 4 * b, 4)
    assert list(found) == ["b", "a", "c"]
    assert found["a"]["effect"] == pytest.approx(2 * 0.2 / 8) and found["b"]["effect"] == pytest.approx(4 * 0.2 / 8)
    assert found["c"]["effect"] == 0 and found["b"]["interaction"] == pytest.approx(0, abs=1e-9)


def test_paths_tell_a_parameter_that_depends_on_another():
    found = effects("morris", lambda a, b, c: 1 + c + 30 * (a - 1) * (b - 1), 16)
    assert found["c"]["interaction"] == pytest.approx(0, abs=1e-9)
    assert found["a"]["interaction"] > 0.1 and found["b"]["interaction"] > 0.1


def test_shares_of_the_variance_are_those_of_a_sum():
    found = effects("sobol", lambda a, b, c: 3 * a + b, 512)
    assert found["a"]["share"] == pytest.approx(0.9, abs=0.05) and found["b"]["share"] == pytest.approx(0.1, abs=0.05)
    assert found["c"]["total"] == pytest.approx(0, abs=1e-9)
    assert found["a"]["spread"] == pytest.approx(numpy.sqrt(10 / 3) * 0.1 / 4, rel=0.05)


def test_what_moves_nothing_has_no_share():
    assert all(row["total"] == 0 for row in effects("sobol", lambda a, b, c: 7, 4).values())


@pytest.fixture
def small(native, tmp_path):
    root = Path(__file__).parents[3]
    text = EXPERIMENT.replace("DEVICE", str(root / "configs/devices/oneplus12.yaml")).replace(
        "MODEL", str(root / "configs/models/bamboo-7b.yaml"))
    return native.write(text)


@pytest.mark.all
def test_a_core_that_waits_for_memory_hangs_on_its_bandwidth(small, tmp_path):
    seen, wanted = [], ["cpu.big.*bandwidth", "cpu.big.macs*", "dram.*"]
    frame = sensitivity(small, parameters=wanted, samples=2, out=tmp_path / "o", progress=lambda *at: seen.append(at))
    speed = frame[frame["metric"] == "decode_tokens_per_s"]
    assert speed["parameter"].iloc[0] == "cpu.big.core_bandwidth" and 0.2 < speed["effect"].iloc[0] < 0.5
    low, high = frame.attrs["ends"]["decode_tokens_per_s"]
    assert low < frame.attrs["values"]["decode_tokens_per_s"] < high
    assert (tmp_path / "o/sensitivity.csv").read_text().count("\n") == len(frame) + 1
    rows = store.rows(tmp_path / "o")
    again = sensitivity(small, parameters=wanted, samples=2, out=tmp_path / "o", resume=True)
    pandas.testing.assert_frame_equal(frame, again)
    assert len(rows) == seen[-1][1] <= frame.attrs["runs"]
    pandas.testing.assert_frame_equal(store.rows(tmp_path / "o"), rows)  # with the times at which each began: nothing ran again


def test_the_command_shows_what_matters(native, small):
    answer = native("sensitivity", small, "--parameter", "cpu.big.core_bandwidth", "--parameter", "ufs.slc_buffer", "--samples", "2",
                    "--metric", "decode_tokens_per_s")
    lines = answer.out.splitlines()
    assert answer.code == 0 and lines[2].startswith("cpu.big.core_bandwidth ") and "slc_buffer" not in answer.out, answer.err
    assert "interaction: how much that change differs" in lines[-1] and lines[-2] == "parameters with less effect: 1"


def test_a_policy_in_python_is_used_in_every_run(native, small):
    class Kept(vitro.Eviction):
        """gives nothing up"""

        name = "kept_forever"

        def victim(self, held):
            return None

    rule = {"engine": {"policy": "neuron_cluster", "layout": "bundles", "units": ["cpu1"], "clusters": {"io_core": "cpu0"},
                       "activations": "int8", "weights": {"eviction": "kept_forever"}}, "memory.ffn_in_dram": "50%",
            "model": {"format": "q4_0", "shape": SHAPE}}
    asked = {"parameters": ["cpu.mid.core_bandwidth"], "samples": 2, "metrics": ["decode_tokens_per_s"], "overrides": rule}
    frame = sensitivity(small, policies=[Kept], **asked)
    assert frame.attrs["values"]["decode_tokens_per_s"] > 0 and frame.attrs["runs"] == 4
    with pytest.raises(ConfigError, match="kept_forever"):
        sensitivity(small, **asked)


@pytest.mark.all
def test_what_moves_nothing_is_a_line_and_the_columns_are_explained_once(native, small):
    metrics = [part for name in ("decode_tokens_per_s", "ttft_ms", "unit_submissions_per_token") for part in ("--metric", name)]
    answer = native("sensitivity", small, "--parameter", "cpu.big.core_bandwidth", "--samples", "2", *metrics)
    lines = answer.out.splitlines()
    assert answer.code == 0 and lines.count("unit_submissions_per_token: no parameter moves it by 0.05 % or more") == 1, answer.err
    assert sum(line.startswith("parameter ") for line in lines) == 2 and answer.out.count("interaction: how much") == 1
    assert "interaction: how much" in lines[-1]
    alone = native("sensitivity", small, "--parameter", "ufs.slc_buffer", "--samples", "2", "--metric", "decode_tokens_per_s")
    assert alone.out == "decode_tokens_per_s: no parameter moves it by 0.05 % or more\n", alone.err


@pytest.mark.parametrize("more, said", [
    ({"method": "guess"}, "expected morris or sobol"), ({"band": 1.5}, "--band 1.5"), ({"samples": 1}, "--samples 1"),
    ({"method": "sobol", "samples": 12}, "a power of two"), ({"parameters": ["typo.*"]}, "--parameter typo.* matches none of"),
    ({"metrics": ["speed"]}, "--metric speed is no number"),
    ({"metrics": ["storage_submissions_per_token"]}, "--metric storage_submissions_per_token is 0 with the device as it is")])
def test_what_is_wrong_is_named(small, more, said):
    with pytest.raises(ConfigError) as caught:
        sensitivity(small, **more)
    assert said in str(caught.value)


def test_points_whose_short_checksums_agree_are_two(monkeypatch):
    """CRC32 does not tell "plumless" from "buckeroo": a run of one would answer for the other."""
    from vitro.study import sensitivity as module
    points = [{"device": name} for name in ("plumless", "buckeroo", "plumless")]
    monkeypatch.setattr(module.experiments, "compose", lambda _: SimpleNamespace(origins=SimpleNamespace(at=lambda _: None)))
    monkeypatch.setattr(module, "run_points", lambda _, asked, **__: [SimpleNamespace(metrics=point["device"]) for _, point, _ in asked])
    jobs = module._run(None, points, None, None, "local", False, None, (), None)
    assert [job.metrics for job in jobs] == ["plumless", "buckeroo", "plumless"]


def test_a_package_that_lacks_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "SALib", None)
    with pytest.raises(ConfigError, match=r"pip install 'vitro\[sensitivity\]'"):
        _drawn("morris", SPACE, 2, 1)


def test_a_real_machine_has_none():
    with pytest.raises(ConfigError, match="machine: host .expected sim"):
        space_of({"machine": "host", "experiment_resolved": {}}, (), 0.2)
