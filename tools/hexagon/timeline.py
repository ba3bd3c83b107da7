"""The stages of one product on the NPU: the worker's own log beside the simulated NPU, with and without double buffers.

    python tools/hexagon/timeline.py [--format f16] [--rows 128] [--columns 2048] [--depth 1024] [--buffers 2 1]
                                     [--device configs/devices/oneplus12.yaml] [--out docs/images/npu-stages.png]

Durations are the NPU model's prices, of packets counted under emulation: the emulator's own time means nothing. Needs a build.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "build/release/tools/hexagon/hexagon-timeline"
sys.path.insert(0, str(ROOT / "python"))


def timeline(tool, device, weights, rows, columns, depth, buffers):
    command = [tool, device, weights, *map(str, (rows, columns, depth, buffers))]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        sys.stderr.write(answer.stderr)
        raise SystemExit(answer.returncode)
    return json.loads(answer.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, default=TOOL, help="built by CMake")
    parser.add_argument("--device", type=Path, default=ROOT / "configs/devices/oneplus12.yaml")
    parser.add_argument("--format", choices=("f16", "q4_0"), default="f16")
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=1024)
    parser.add_argument("--buffers", type=int, nargs="+", choices=(0, 1, 2), default=(2, 1))
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images/npu-stages.png")
    options = parser.parse_args()
    from vitro import plot
    from vitro.plot.stages import worker_spans

    shape = (options.format, options.rows, options.columns, options.depth)
    by_title = {f"{count} buffer{'s' * (count != 1)}": timeline(options.tool, options.device, *shape, count) for count in options.buffers}
    for title, found in by_title.items():
        took = max(span["end"] for span in worker_spans(found))
        print(f"{title}: worker {1e6 * took:.1f} us by the model's prices, simulated {1e6 * found['sim_seconds']:.1f} us")
    plot.stages(by_title).savefig(options.out, dpi=110)
    print(options.out)


if __name__ == "__main__":
    main()
