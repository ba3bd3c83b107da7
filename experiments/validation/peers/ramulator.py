"""Records what Ramulator 2.1 gives for access patterns that our detailed DRAM is held against (docs/results/peers.md).

    git clone https://github.com/CMU-SAFARI/ramulator2 CHECKOUT            # outside this tree
    python experiments/validation/peers/ramulator.py CHECKOUT              # builds the driver in CHECKOUT, writes the record

CHECKOUT's sources are compiled beside ramulator_driver.cpp; CHECKOUT/python writes its configurations. Needs g++ 12, yaml-cpp and fmt.
"""
import argparse
import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD = HERE.parent / "recorded" / "peers-dram.yaml"
WARM_UP, CYCLES = 8_000, 80_000  # of 1.25 ns: 10 and 100 us
OWN = {"mop4_column_xor": "MOP4CLXOR", "robaracoch": "RoBaRaCoCh"}  # mappings that Ramulator has; the driver applies the others
LEFT_OUT = ("/python/", "/processor/", "/plugin/", "blockhammer", "prac_controller")  # parts that no configuration here uses


def agent(kind="sequential", chunk=256, stride=None, outstanding=256, writes=0.0):
    return {"kind": kind, "chunk": chunk, "stride": chunk if stride is None else stride, "outstanding": outstanding, "writes": writes}


def patterns():
    """-> [(name, {mapping, refresh, ranks, wck, agents})]"""
    rows = []

    def add(name, *agents, mapping="mop4", refresh="none", ranks=1, wck="always_on"):
        rows.append((name, {"mapping": mapping, "refresh": refresh, "ranks": ranks, "wck": wck, "agents": list(agents)}))

    for refresh in ("none", "all_bank", "per_bank"):
        add(f"sequential, refresh {refresh}", agent(), refresh=refresh)
    for mapping in ("mop4_column_xor", "robaracoch", "rocobarach", "chrabaroco"):
        add(f"sequential, {mapping}", agent(), mapping=mapping)
        add(f"random 64 B, {mapping}", agent("random", 64), mapping=mapping)
    for refresh in ("all_bank", "per_bank"):
        add(f"sequential, robaracoch, refresh {refresh}", agent(), mapping="robaracoch", refresh=refresh)
        add(f"random 64 B, refresh {refresh}", agent("random", 64), refresh=refresh)
    for chunk, stride in ((64, 192), (64, 256), (64, 4096), (256, 1024), (1024, 4096), (4096, 12288), (4096, 65536)):
        add(f"stride {chunk} of {stride} B", agent("sequential", chunk, stride))
    for chunk in (32, 64, 256, 1024, 4096):
        add(f"random {chunk} B", agent("random", chunk))
    for outstanding in (1, 8, 32):
        add(f"random 32 B, {outstanding} outstanding", agent("random", 32, outstanding=outstanding))
    add("sequential, 1 outstanding", agent(outstanding=1))
    add("sequential, 16 outstanding", agent(outstanding=16))
    add("write sequential", agent(writes=1.0))
    add("write random 64 B", agent("random", 64, writes=1.0))
    add("write random 1024 B", agent("random", 1024, writes=1.0))
    for share in (0.02, 0.1, 0.25, 0.5):
        add(f"sequential, {share:.0%} writes", agent(writes=share))
    add("random 64 B, 25% writes", agent("random", 64, writes=0.25))
    for count in (2, 4, 8):
        add(f"{count} streams", *[agent(outstanding=64)] * count)
        add(f"{count} random 256 B", *[agent("random", 256, outstanding=32)] * count)
    add("4 streams, refresh per_bank", *[agent(outstanding=64)] * 4, refresh="per_bank")
    add("stream and pointer chase", agent(), agent("random", 32, outstanding=1))
    add("stream and random 64 B", agent(), agent("random", 64, outstanding=16))
    add("stream and writer", agent(), agent(outstanding=16, writes=1.0))
    add("2 streams and writer", agent(), agent(), agent(outstanding=16, writes=1.0), refresh="per_bank")
    add("sequential, 2 ranks", agent(), ranks=2)
    add("random 64 B, 2 ranks", agent("random", 64), ranks=2)
    add("sequential, 10% writes, 2 ranks", agent(writes=0.1), ranks=2)
    add("sequential, WCK synchronised", agent(), wck="need_sync")
    add("random 64 B, WCK synchronised", agent("random", 64), wck="need_sync")
    add("random 32 B, 1 outstanding, WCK synchronised", agent("random", 32, outstanding=1), wck="need_sync")
    return rows


def configuration(checkout, pattern, path):
    """Writes Ramulator's own configuration of four LPDDR5-6400 channels, by its exporter."""
    mapper = OWN.get(pattern["mapping"], "PassThroughAddrMapper")
    script = path.with_suffix(".py")
    script.write_text(
        "import ramulator as r\n"
        "controllers = [r.controller.LPDDR5(\n"
        f"    dram=r.dram.LPDDR5(org_preset='LPDDR5_16Gb_x16', timing_preset='LPDDR5_6400', rank={pattern['ranks']}),\n"
        f"    scheduler=r.scheduler.FRFCFSRowHit(), row_policy=r.row_policy.Open(), addr_mapper=r.addr_mapper.{mapper}(),\n"
        f"    refresh_manager=r.refresh_manager.{dict(none='NoRefresh', all_bank='AllBank', per_bank='PerBank')[pattern['refresh']]}(),\n"
        f"    wck_sync_mode='{pattern['wck']}') for _ in range(4)]\n"
        f"channels = r.channel_mapper.{'CacheLineInterleave' if pattern['mapping'] in OWN else 'PassThroughChannelMapper'}()\n"
        "memory = r.memory_system.GenericDRAM(clock_ratio=1, controllers=controllers, channel_mapper=channels)\n"
        "r.Simulation(r.frontend.External(clock_ratio=1), memory)\n")
    subprocess.run(["python3", "-m", "ramulator", "export", script, "-o", path], check=True, capture_output=True,
                   env=os.environ | {"PYTHONPATH": str(checkout / "python")})


def build(checkout):
    """-> the driver, compiled with every source of CHECKOUT that it needs. Sources that were compiled before are kept."""
    objects = checkout / "build-driver"
    objects.mkdir(exist_ok=True)
    flags = ["g++", "-std=c++20", "-O2", "-DFMT_HEADER_ONLY", f"-I{checkout / 'src'}"]
    made = []
    for source in sorted((checkout / "src").rglob("*.cpp")):
        if any(part in str(source) for part in LEFT_OUT):
            continue
        made.append(objects / (str(source.relative_to(checkout)).replace("/", "_") + ".o"))
        if not made[-1].exists():
            subprocess.run([*flags, "-c", source, "-o", made[-1]], check=True)
    driver = objects / "ramulator_driver"
    subprocess.run([*flags, HERE / "ramulator_driver.cpp", *made, "-lyaml-cpp", "-o", driver], check=True)
    return driver


def measure(driver, checkout, pattern, folder):
    configuration(checkout, pattern, folder / "configuration.yaml")
    mapping = "own" if pattern["mapping"] in OWN else pattern["mapping"] + ("/2" if pattern["ranks"] == 2 else "")
    agents = [",".join(str(one[key]) for key in ("kind", "chunk", "stride", "outstanding", "writes")) for one in pattern["agents"]]
    command = [driver, folder / "configuration.yaml", mapping, str(WARM_UP), str(CYCLES), *agents]
    *rates, all_rates, latency = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return {"gb_per_s": all_rates, "agents_gb_per_s": rates, "read_latency_ns": latency}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    asked = parser.parse_args()
    checkout = asked.checkout.resolve()
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    driver = build(checkout)
    lines = ["# Written by experiments/validation/peers/ramulator.py; docs/results/peers.md says what it shows.",
             f"simulator: Ramulator 2.1, github.com/CMU-SAFARI/ramulator2, commit {commit}",
             "configuration: four channels of LPDDR5_16Gb_x16, LPDDR5_6400, FRFCFS-RowHit, open rows, queues of 32, drain from 80 to 20 %",
             f"command: python experiments/validation/peers/ramulator.py CHECKOUT  # {WARM_UP} cycles of 1.25 ns, then {CYCLES} count",
             f"warm_up: {WARM_UP}", f"cycles: {CYCLES}", "patterns:"]
    for name, pattern in patterns():
        found = measure(driver, checkout, pattern, driver.parent)
        print(name, found, flush=True)
        lines.append(f"  - {json.dumps({'name': name} | pattern | found)}")
    RECORD.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
