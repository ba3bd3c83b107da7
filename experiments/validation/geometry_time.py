"""What moves of data cost on this computer, and what their fusion gains: `engine.graph.fuse` none, geometry and all.

    PYTHONPATH=python .venv/bin/python experiments/validation/geometry_time.py [--rounds 9] [--threads 1] [--prompt 256] [--json]

A made Llama of 215 M parameters in q4_0, alone and with a LoRA adapter on every matrix, and a Phi-3 of its shape, which has one matrix for
q, k and v and one for Gate and Up. The three graphs run by turns. Gains are those of the shortest times, for other work only adds to them,
and of times in the same round: median and quartiles. The CPU time is that of the whole process, its loading included, and suffers least
from others. Tokens have to be equal. Needs vitro-device and the Python extension. docs/design/geometry.md has the result.
"""
import argparse
import dataclasses
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import adapters  # noqa: E402  writes adapters
from vitro.model import files  # noqa: E402
from vitro.model.dense import BENCHMARK, make_dense  # noqa: E402

DEVICE = ROOT / "build" / "release" / "engine" / "app" / "vitro-device"
FUSE = ("none", "geometry", "all")
OUTPUTS, RANK = 64, 8


def experiment(model, fuse, options, adapter):
    tree = {"experiment": "geometry_time", "machine": "host", "model": {"gguf": str(model)},
            "engine": {"threads": options.threads, "activations": "int8", "graph": {"fuse": fuse}},
            "workload": {"prompt_tokens": options.prompt, "output_tokens": OUTPUTS, "stop_at_eos": False}}
    if adapter:
        tree["engine"]["lora"] = {"adapters": [{"name": "a", "file": str(adapter)}]}
        tree["workload"]["adapter"] = "a"
    return tree


def run(tree, folder):
    """-> the result, and the seconds that the run spent in its own instructions"""
    file = folder / "experiment.json"
    file.write_text(json.dumps(tree))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([DEVICE, "run", file, "--cache", folder], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measure(model, options, adapter, folder):
    """-> {fuse: row}"""
    times = {fuse: {"prefill": [], "decode": [], "whole run, CPU": []} for fuse in FUSE}
    moves, tokens = {}, {}
    for _ in range(options.rounds):
        for fuse in FUSE:
            result, cpu = run(experiment(model, fuse, options, adapter), folder)
            metrics = result["metrics"]
            times[fuse]["prefill"].append(1 / metrics["prefill_tokens_per_s"])
            times[fuse]["decode"].append(1 / metrics["decode_tokens_per_s"])
            times[fuse]["whole run, CPU"].append(cpu / (options.prompt + OUTPUTS))
            moves[fuse], tokens[fuse] = {part: metrics.get(part, {}) for part in ("moves", "scores")}, result["tokens"]
    if any(tokens[fuse] != tokens["none"] for fuse in FUSE):
        raise SystemExit("fusion changed the tokens")
    rows = {}
    for fuse in FUSE:
        rows[fuse] = {"moves": moves[fuse]}
        for part, seconds in times[fuse].items():
            gains = [100 * (none / own - 1) for none, own in zip(times["none"][part], seconds, strict=True)]
            rows[fuse][part] = {"best_ms_per_token": 1e3 * min(seconds),
                                "best_gain_percent": 100 * (min(times["none"][part]) / min(seconds) - 1),
                                "gain_percent": statistics.quantiles(gains, n=4)}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=256, help="tokens")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made, model, adapter = folder / "made.gguf", folder / "q4_0.gguf", folder / "adapter.gguf"
        make_dense(BENCHMARK, made)
        adapters.write_adapter(adapters.random_adapter(adapters.weights_of(made), rank=RANK), adapter)
        files.quantize(made, model, "q4_0")
        made.unlink()
        answer = {"base": measure(model, options, None, folder), "lora": measure(model, options, adapter, folder)}
        make_dense(dataclasses.replace(BENCHMARK, joined=True), made)
        files.quantize(made, model, "q4_0")
        answer["joined"] = measure(model, options, None, folder)
    if options.json:
        print(json.dumps(answer))
        return
    for graph, rows in answer.items():
        for fuse, row in rows.items():
            print(f"{graph} {fuse}: {row['moves']}")
            for part in ("prefill", "decode", "whole run, CPU"):
                low, middle, high = row[part]["gain_percent"]
                print(f"    {part:16}{row[part]['best_ms_per_token']:9.3f} ms per token, gain over none "
                      f"{row[part]['best_gain_percent']:+.2f} %, by rounds {middle:+.2f} % ({low:+.2f} to {high:+.2f})")


if __name__ == "__main__":
    main()
