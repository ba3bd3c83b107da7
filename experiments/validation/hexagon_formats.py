#!/usr/bin/env python3
"""The quickstart in each stored format on the emulated Hexagon and on cores: the table of docs/design/hexagon.md.

    python experiments/validation/hexagon_formats.py [--tokens 3] [--only q4_0 w2g64z ...]

Each scheme of `vitro quantize --list` is computed in the contract `fp16`, and in those integer contracts that the worker has for it, with
two and with four HVX threads. Exit code 1 where tokens differ from the cores'. Needs a build, and qemu-hexagon. Takes ten minutes.
"""
import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from vitro.base import native  # noqa: E402
from vitro.model import files  # noqa: E402
from vitro.running import experiments  # noqa: E402

MODEL = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"
THREADS = (2, 4)
TABLES = ("g64", "g64z", "_channel")  # endings of the schemes in planes whose look-ups are tried


def contracts(scheme):
    if scheme in ("q8_0", "q4_0"):
        return "fp16", "int8"
    if scheme[0] == "w" and scheme[1] in "1234" and scheme[2:] in TABLES:
        return "fp16", "int8_tables", "int16_tables"
    return "fp16",


def run(model, tokens, contract, units, **placement):
    overrides = {"model.gguf": str(model), "workload.output_tokens": tokens, "engine.units": units, "engine.activations": contract}
    overrides |= {f"engine.placement.{key}": value for key, value in placement.items()}
    return experiments.run(ROOT / "experiments" / "quickstart.yaml", machine="host", overrides=overrides)


def packets(counts):
    """-> those of control, transfers and the matrix unit, and the least and the most of an HVX thread; thousands."""
    of = {name.removeprefix("hexagon_packets."): count for name, count in counts.items() if name.startswith("hexagon_packets.")}
    vector = [count for name, count in of.items() if name.startswith("vector.")]
    cells = [of.get(name, 0) for name in ("control.control", "transfer.dma", "matrix.matrix")]
    return [f"{count / 1000:,.0f}" for count in (*cells, min(vector, default=0), max(vector, default=0))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=3)
    parser.add_argument("--only", nargs="*", metavar="SCHEME")
    options = parser.parse_args()
    differ = []
    print("| format | contract | HVX threads | matmuls on the worker | tokens | control | DMA | matrix unit | HVX, each thread |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for scheme in options.only or ["f16", *(name for name, _ in native.call("quantize_schemes"))]:
            model = MODEL
            if scheme != "f16":
                model = Path(folder) / "model.gguf"
                files.quantize(MODEL, model, scheme)
            for contract in contracts(scheme):
                cores = run(model, options.tokens, contract, "[cpu0, cpu1]")["tokens"]
                for threads in THREADS:
                    found = run(model, options.tokens, contract, "hexagon", hvx_threads=threads)
                    if found["tokens"] != cores:
                        differ.append(f"{scheme} {contract} {threads}")
                    control, dma, matrix, least, most = packets(found["counts"])
                    print(f"| {scheme} | {contract} | {threads} | {found['counts'].get('hexagon_operators', 0)} | "
                          f"{'differ' if found['tokens'] != cores else 'equal'} | {control} | {dma} | {matrix} | {least} to {most} |",
                          flush=True)
    if differ:
        sys.exit(f"tokens differ from the cores': {', '.join(differ)}")


if __name__ == "__main__":
    main()
