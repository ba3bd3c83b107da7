"""Traces in Perfetto's own format, and windows of a run."""
import pytest
import vitro
from conftest import ROOT
from vitro.trace.trace import load_trace
from vitro.trace.where import where

QUICKSTART = ROOT / "experiments/quickstart.yaml"
CHANGES = {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "50%", "workload.output_tokens": 6}


def traced(folder, **trace):
    result = vitro.run(QUICKSTART, overrides=CHANGES | {f"trace.{key}": value for key, value in trace.items()}, out=folder)
    return result, load_trace(folder)


def test_both_formats_hold_the_same_events(native, tmp_path):
    plain, json = traced(tmp_path / "json")
    streamed, perfetto = traced(tmp_path / "perfetto", format="perfetto")
    assert plain.data["event_hash"] == streamed.data["event_hash"] and plain.metrics == streamed.metrics
    assert not (tmp_path / "perfetto/trace.json").exists() and (tmp_path / "perfetto/trace.pftrace").exists()
    assert len(json.span_rows) == len(perfetto.span_rows) > 1000 and len(json.counter_rows) == len(perfetto.counter_rows) > 100

    def rounded(rows, *times):
        return sorted(tuple(int(value * 1000 + 1e-6) if at in times else value for at, value in enumerate(row)) for row in rows)
    ends = [[(*row[:3], row[3], row[3] + row[4], row[5]) for row in trace.span_rows] for trace in (json, perfetto)]
    close = [(one, other) for one, other in zip(*(rounded(each, 3, 4) for each in ends)) if one != other]
    assert all(one[:3] == other[:3] and max(abs(one[at] - other[at]) for at in (3, 4)) <= 1 for one, other in close)
    assert rounded(json.counter_rows, 2) == rounded(perfetto.counter_rows, 2)
    assert (tmp_path / "perfetto/trace.pftrace").stat().st_size < 0.5 * (tmp_path / "json/trace.json").stat().st_size
    assert (tmp_path / "perfetto/decisions.jsonl").read_bytes() == (tmp_path / "json/decisions.jsonl").read_bytes()


@pytest.mark.parametrize("machine", ["sim", "host"])
@pytest.mark.parametrize("form", ["json", "perfetto"])
def test_a_flow_leads_from_each_read_to_the_kernel_that_took_what_it_brought(native, tmp_path, form, machine):
    without, plain = traced(tmp_path / "without", format=form, flows=False)
    changes = CHANGES | {"machine": machine, "trace.format": form, "trace.flows": True}
    result = vitro.run(QUICKSTART, overrides=changes, out=tmp_path / "with")
    trace = load_trace(tmp_path / "with")
    if machine == "sim":
        assert result.data["event_hash"] == without.data["event_hash"] and trace.span_rows == plain.span_rows
    assert plain.flow_rows == () and list(plain.flows.columns) == list(trace.flows.columns)
    flows = trace.flows
    reads = [row for row in trace.span_rows if row[:3] == ("storage", "flash", "read")]
    assert len(flows) == len(reads) > 100 and sorted(flows["request"]) == sorted(row[5] for row in reads)
    taken = flows[flows["kernel"].notna()]
    assert (flows["done_us"] > flows["submitted_us"]).all() and (taken["kernel_begin_us"] >= taken["done_us"] - 1e-3).all()
    assert len(taken) > 0.9 * len(flows), "what is loaded before the first token is whole, and all of it is read"
    kernels = {(row[1], row[2], row[3], row[5]) for row in trace.span_rows if row[0] == "units"}
    assert set(taken[["track", "kernel", "kernel_begin_us", "kernel_detail"]].itertuples(index=False, name=None)) <= kernels


@pytest.mark.parametrize("form", ["json", "perfetto"])
def test_a_window_holds_its_tokens_alone_and_changes_nothing(native, tmp_path, form):
    whole, everything = traced(tmp_path / "whole")
    windowed, trace = traced(tmp_path / "window", format=form, first_token=3, tokens=2)
    assert windowed.data["event_hash"] == whole.data["event_hash"]
    steps = [row for row in trace.span_rows if row[:2] == ("policy", "steps") and row[2] in ("prompt", "decode")]
    assert [row[2] for row in steps] == ["decode", "decode"]
    wanted = [row for row in everything.span_rows if row[:2] == ("policy", "steps") and row[2] == "decode"][1:3]
    assert [row[3] for row in steps] == pytest.approx([row[3] for row in wanted], abs=1e-3)
    assert 0 < len(trace.span_rows) < 0.6 * len(everything.span_rows)
    assert trace.begin_us == steps[0][3] and everything.begin_us == 0
    assert sum(row.ms for row in where(trace) if row.unit == "cpu0") == pytest.approx((trace.end_us - trace.begin_us) / 1e3)
    assert {(row.kind, row.what): row.ms for row in where(trace, "decode")} == pytest.approx(
        {(row.kind, row.what): row.ms for row in where(trace)}, abs=1e-3)


def test_a_window_that_the_run_does_not_reach_is_empty(native, tmp_path):
    _, trace = traced(tmp_path / "out", first_token=50)
    assert not trace.span_rows and not trace.counter_rows and trace.begin_us == 0


def test_a_file_that_is_none_and_keys_that_are_wrong_are_named(native, tmp_path):
    (tmp_path / "trace.pftrace").write_bytes(b"\x0a\xff\xff\xff\xff\xff")
    with pytest.raises(vitro.ConfigError, match="trace.pftrace: is not a Perfetto trace"):
        load_trace(tmp_path)
    with pytest.raises(vitro.ConfigError, match="trace.format.*expected one of: json, perfetto"):
        traced(tmp_path / "out", format="pf")
    with pytest.raises(vitro.ConfigError, match="trace.first_token"):
        traced(tmp_path / "out", first_token=0)
