"""Every simulated row of the characterisation map hangs on a mechanism of its device: without it the row fails."""
import copy
import functools
import json

import pytest
from conftest import ROOT
from vitro.base import native as _native
from vitro.device import characterize as probing
from vitro.device import sensitivity

DEVICES = ROOT / "configs" / "devices"
FIGURES, ANSWERS = probing.load_figures(ROOT / "experiments" / "papers")
SIMULATED = {key: answer for key, answer in ANSWERS.items() if answer["class"] in ("simulated", "bound")}
assert len(SIMULATED) > 60
FOLLOWS = 0.02  # what a row that is off moves by

# What a row's entry, or the longest beginning of its name that stands here, is measured without. Tables are replaced as a whole.
NO_ISSUE = {"ufs.issue_cycles": "0", "ufs.issue_fixed": "0 us"}
NO_DMA_LIMIT = {"npu.dma_bandwidth": "1000 GB/s", "dram.bandwidth": "1000 GB/s", "dram.part": "none"}
NO_LIMIT = {"dram.bandwidth": "1000 GB/s", "dram.part": "none"}
SLOW_STREAM = {"ane.stream_bandwidth": "6.7 GB/s"}
WITHOUT = {
    "pi2_membw_cpu_only": {"cpu.bandwidth": "1000 GB/s", "cpu.clusters.mid.cluster_bandwidth": "1000 GB/s"},
    "pi2_membw_npu_only": {"npu.hand_over_cycles": "0"},
    "pi2_membw_cpu_npu": NO_LIMIT,
    "mnn_lpddr5x_bw": NO_LIMIT,
    "pi2_ufs_seq_read_intro": {"ufs.link_bandwidth": "40 GB/s"},
    "pi2_ufs4_seq_read_512kb": {"ufs.link_bandwidth": "40 GB/s"},
    "pi2_ufs4_seq_read_4kb": {"ufs.latency_sequential": "0 us"},
    "pi2_ufs4_rand_read_512kb": {"ufs.latency_random": "0 us", "ufs.media_time": "0 us"},
    "pi2_ufs4_rand_4kb_range_128mb": {"ufs.map_cache_reach": "0 MiB", "ufs.map_fetches": "1"},
    "pi2_ufs4_rand_4kb_range_512mb": {"ufs.map_cache_reach": "1 GiB"},
    "pi2_ufs_rand4k": NO_ISSUE,
    "pi2_ufs_multicore_io_degradation": {"ufs.issuer_switch": "0 us"},
    "pi2_nvme_seq_read_intro": {"ufs.link_bandwidth": "40 GB/s"},
    "pi2_nvme_rand_iops_intro": {"ufs.queues": "1"},
    "pi2_gpu_kernel_useful_share": {"gpu.launch": "0 us"},
    "tts_hvx_fp16_gflops": {"npu.packets_per_mac_otherwise": "0.001"},
    "tts_hmx_fp16_gflops": {"npu.kernels": {"kind": "assumed"}},
    "tts_hmx_over_hvx": {"npu.kernels": {"kind": "assumed"}},
    "tts_hvx_mem_bw": {"npu.fetches_in_flight": "1000"},
    "tts_hvx_mem_bw_bound": {"npu.fetches_in_flight": "1000", "npu.l2_bandwidth": "1000 GB/s"},
    "tts_dma_mem_bw": NO_DMA_LIMIT,
    "tts_vgather_latency": {"npu.gather_packets": "0"},
    "tman_bw_dma": NO_DMA_LIMIT,
    "tman_bw_vectorload_1t": {"npu.loads_in_flight": "1000"},
    "tman_bw_vectorload_4t": {"npu.memory_latency": "1 ns"},
    "tman_bw_l2fetch_1t": {"npu.fetches_in_flight": "1000"},
    "tman_bw_l2fetch_4t": {"npu.l2_bandwidth": "1000 GB/s"},
    "tman_vlut": {"npu.hvx_bits": "512", "npu.lookups_per_packet": "1"},
    "npumoe_graph_limit_m2ultra": {"ane.graph_limit": "600 MiB"},
    "npumoe_npu_vs_cpu_matmul": {"ane.tflops": "1"},
    "npumoe_table5_serial": SLOW_STREAM,
    "npumoe_group_serial_slowdown": {"ane.units": 1},
    "npumoe_table8_gpu_vs_npu_attention.gpu.runtime_ms": {"gpu.attention_macs_per_second": "1e15"},
    "npumoe_table8_gpu_vs_npu_attention.gpu.energy_mj": {"power.active_watts": {"kind": "assumed", "gpu": "0"}},
    "npumoe_table8_gpu_vs_npu_attention.gpu.power_w": {"power.active_watts": {"kind": "assumed", "gpu": "0"}},
    "npumoe_table8_gpu_vs_npu_attention.npu.runtime_ms": {"ane.elementwise_per_second": "1e15"},
    "npumoe_table8_gpu_vs_npu_attention.npu.energy_mj": {"power.active_watts": {"kind": "assumed", "ane": "0"}},
    "npumoe_table8_gpu_vs_npu_attention.npu.power_w": {"power.active_watts": {"kind": "assumed", "ane": "0"}},
    "npumoe_table8_gpu_vs_npu_attention.gpu_over_npu.speed": {"ane.elementwise_per_second": "1e15"},
    "npumoe_table8_gpu_vs_npu_attention.gpu_over_npu": {"power.active_watts": {"kind": "assumed", "ane": "0"}},
    "npumoe_table8_gpu_attention_ms": {"gpu.attention_macs_per_second": "1e15"},
    "npumoe_table8_npu_attention_ms": {"ane.elementwise_per_second": "1e15"},
}


def mechanism(key):
    return max((name for name in WITHOUT if key.startswith(name)), key=len, default=None)


def without(device, changes):
    tree = copy.deepcopy(device)
    for name, value in changes.items():
        parent, _, leaf = name.rpartition(".")
        holder = probing.parameter_of(tree, parent)
        assert leaf in holder, name  # what is not there can not be removed
        holder[leaf] = {"value": value, "kind": "assumed", "source": "without"} if isinstance(holder.get(leaf), dict) and isinstance(
            value, str) else value
    return json.dumps(sensitivity._numbers(tree))


@functools.cache
def rows():
    """-> {row id: (row, row without its mechanism)} of all simulated entries of all devices."""
    trees = {name: _native.call("load_device", str(DEVICES / f"{name}.yaml")) for name in {a["device"] for a in SIMULATED.values()}}
    texts = {key: (without(trees[answer["device"]], {}), without(trees[answer["device"]], WITHOUT[mechanism(key)]))
             for key, answer in SIMULATED.items()}
    answered = probing.run_probes([(text, probe, args) for key, answer in SIMULATED.items() for text in texts[key]
                                   for probe, args, _ in probing.wanted(answer)])
    found = {}
    for key, answer in SIMULATED.items():
        both = [probing.rows_of(FIGURES[key], answer, probing.measured(
            answer, lambda probe, args, text=text: answered[probing.request_key(text, probe, args)])) for text in texts[key]]
        found |= {row["id"]: (row, other) for row, other in zip(*both)}
    return found


def test_every_simulated_entry_names_a_mechanism_and_no_mechanism_is_left_over():
    used = {mechanism(key) for key in SIMULATED}
    assert None not in used and used == set(WITHOUT)


@pytest.mark.parametrize("key", SIMULATED)
def test_without_its_mechanism_the_row_fails(native, key):
    mine = [pair for name, pair in rows().items() if name == key or name.startswith(key + ".")]
    assert mine
    for row, other in mine:
        if row["status"] == "ok":
            assert other["status"] == "off", (row, other)
        else:  # what is off for a reason of its own (docs/guide/characterize.md) at least follows its mechanism
            assert abs(other["simulated"] / row["simulated"] - 1) > FOLLOWS, (row, other)
