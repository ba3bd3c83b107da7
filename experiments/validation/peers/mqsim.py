"""Records what MQSim gives for reads and writes that our detailed flash is held against (docs/results/peers.md).

    git clone https://github.com/CMU-SAFARI/MQSim CHECKOUT && make -C CHECKOUT     # outside this tree
    python experiments/validation/peers/mqsim.py CHECKOUT                          # writes the record

One host keeps `depth` commands in an NVMe queue. Map and cache are taken out (ideal map, caching off), the host link is 64 GB/s. MQSim
counts its own rates in whole seconds, so the rate here is the commands that were served until `Stop_Time`, over that time. Without a
cache a write ends when its pages are programmed. Too little is written for a garbage collection.
"""
import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / "recorded" / "peers-flash.yaml"
SECTOR, PAGE = 512, 16 << 10
SECONDS = 0.5

# MQSim counts channel transfers in whole ns for two bytes: 1 GB/s per byte of width.
PHONE = {"channels": 2, "dies_per_channel": 8, "planes": 1, "read_us": 45, "program_us": 600, "channel_gb_per_s": 4}
DEVICES = {
    "2 channels of 8 dies": PHONE,
    "the same, tR 18 us": PHONE | {"read_us": 18},
    "the same, tR 75 us": PHONE | {"read_us": 75},
    "the same, tPROG 200 us": PHONE | {"program_us": 200},
    "the same, 4 planes": PHONE | {"planes": 4},
    "the same, 1 GB/s": PHONE | {"channel_gb_per_s": 1},
    "1 channel of 4 dies": PHONE | {"channels": 1, "dies_per_channel": 4},
    "8 channels of 4 dies": PHONE | {"channels": 8, "dies_per_channel": 4},
}


def patterns():
    """-> [(device, {block, depth, sequential, write})]"""
    rows = [("2 channels of 8 dies", block, depth, False) for block in (4, 16, 64) for depth in (1, 4, 16, 32)]
    rows += [(device, block, depth, False) for device in ("the same, tR 18 us", "the same, tR 75 us", "1 channel of 4 dies",
                                                          "8 channels of 4 dies") for block, depth in ((4, 8), (4, 32), (16, 8))]
    rows += [("the same, 4 planes", 64, depth, False) for depth in (1, 4)]
    rows += [("2 channels of 8 dies", block, depth, True) for block, depth in ((16, 1), (16, 8))]
    rows += [(device, 128, 16, False) for device in ("2 channels of 8 dies", "1 channel of 4 dies", "8 channels of 4 dies")]
    rows += [("the same, 1 GB/s", *load) for load in ((4, 32, False), (16, 32, False), (64, 8, True))]
    written = [("2 channels of 8 dies", block, depth, True) for block, first in ((16, 2), (64, 1)) for depth in (first, 4, 16, 64)]
    written += [(device, block, depth, True) for device in ("the same, tPROG 200 us", "the same, 1 GB/s", "1 channel of 4 dies",
                                                            "8 channels of 4 dies") for block, depth in ((16, 4), (16, 64), (128, 4))]
    written += [("2 channels of 8 dies", block, depth, False) for block, depth in ((16, 2), (16, 16), (16, 64), (128, 8))]
    return [(device, {"block_kib": block, "depth": depth, "sequential": sequential, "write": write})
            for write, loads in ((False, rows), (True, written)) for device, block, depth, sequential in loads]


def changed(text, values):
    for key, value in values.items():
        text, count = re.subn(f"<{key}>[^<]*</{key}>", f"<{key}>{value}</{key}>", text)
        if count == 0:
            raise SystemExit(f"MQSim's configuration has no {key}")
    return text


def configuration(checkout, device):
    return changed((checkout / "ssdconfig.xml").read_text(), {
        "PCIe_Lane_Bandwidth": 16, "PCIe_Lane_Count": 4, "Caching_Mechanism": "SIMPLE", "Ideal_Mapping_Table": "true",
        "Plane_Allocation_Scheme": "PCWD" if device["planes"] > 1 else "CWDP", "Transaction_Scheduling_Policy": "OUT_OF_ORDER",
        "Flash_Channel_Count": device["channels"], "Flash_Channel_Width": device["channel_gb_per_s"], "Channel_Transfer_Rate": 1000,
        "Chip_No_Per_Channel": device["dies_per_channel"], "Flash_Technology": "SLC", "Die_No_Per_Chip": 1,
        "Page_Read_Latency_LSB": device["read_us"] * 1000, "Page_Program_Latency_LSB": device["program_us"] * 1000,
        "Plane_No_Per_Die": device["planes"],
        "Block_No_Per_Plane": 256 // device["planes"], "Page_No_Per_Block": 256,
        "Page_Capacity": PAGE, "Page_Metadat_Capacity": 0})


def numbers(count):
    return ",".join(map(str, range(count)))


def workload(device, pattern):
    sectors = pattern["block_kib"] * 1024 // SECTOR
    values = {
        "Priority_Class": "HIGH", "Device_Level_Data_Caching_Mode": "TURNED_OFF", "Channel_IDs": numbers(device["channels"]),
        "Chip_IDs": numbers(device["dies_per_channel"]), "Die_IDs": 0, "Plane_IDs": numbers(device["planes"]),
        "Initial_Occupancy_Percentage": 50, "Working_Set_Percentage": 80, "Synthetic_Generator_Type": "QUEUE_DEPTH",
        "Read_Percentage": 0 if pattern["write"] else 100,
        "Address_Distribution": "STREAMING" if pattern["sequential"] else "RANDOM_UNIFORM",
        "Percentage_of_Hot_Region": 0, "Generated_Aligned_Addresses": "true", "Address_Alignment_Unit": sectors,
        "Request_Size_Distribution": "FIXED", "Average_Request_Size": sectors, "Variance_Request_Size": 0, "Seed": 798,
        "Average_No_of_Reqs_in_Queue": pattern["depth"], "Intensity": 32768, "Stop_Time": round(SECONDS * 1e9),
        "Total_Requests_To_Generate": 0}
    flow = "".join(f"<{key}>{value}</{key}>\n" for key, value in values.items())
    start, end = "<MQSim_IO_Scenarios><IO_Scenario>", "</IO_Scenario></MQSim_IO_Scenarios>"
    kind = "IO_Flow_Parameter_Set_Synthetic"
    return f'<?xml version="1.0" encoding="us-ascii"?>\n{start}<{kind}>\n{flow}</{kind}>{end}\n'


def measure(checkout, device, pattern):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "ssd.xml").write_text(configuration(checkout, device))
        (folder / "load.xml").write_text(workload(device, pattern))
        command = [checkout / "MQSim", "-i", folder / "ssd.xml", "-w", folder / "load.xml"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, input="\n", text=True)
        text = (folder / "load_scenario_1.xml").read_text()
    generated = int(re.search("<Request_Count>([^<]*)</Request_Count>", text)[1])
    rate = (generated - pattern["depth"]) / SECONDS
    return {"commands_per_s": rate, "gb_per_s": round(rate * pattern["block_kib"] * 1024e-9, 5)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout.resolve()
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    lines = ["# Written by experiments/validation/peers/mqsim.py; docs/results/peers.md says what it shows.",
             f"simulator: MQSim, github.com/CMU-SAFARI/MQSim, commit {commit}",
             "configuration: its ssdconfig.xml with pages of 16 KiB, one die per chip, ideal map, no cache, an out-of-order scheduler",
             "command: python experiments/validation/peers/mqsim.py CHECKOUT", "patterns:"]
    for name, pattern in patterns():
        found = measure(checkout, DEVICES[name], pattern)
        print(name, pattern, found, flush=True)
        lines.append(f"  - {json.dumps({'name': name, 'device': DEVICES[name]} | pattern | found)}")
    RECORD.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
