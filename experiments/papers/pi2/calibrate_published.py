"""Sets what PowerInfer-2 does not state of the systems that it compares with, for the reading as published (map.yaml).

    python experiments/papers/pi2/calibrate_published.py

Each search looks at the one value that may set its unknown, and at no speed of a compared system but the first's:
1. Kernels of systems on cores: of the builds that llama.cpp has, the one whose prompts come nearest 8 tokens/s (pi2_prefill_7b_int4_cpu).
2. The window of LLMFlash's cache, in tenths of a token: 10 % of misses (pi2_llmflash_flash_miss).
3. LLMFlash's reads in flight: 76.7 % of I/O in Table 4 (pi2_t4_llmflash_io_share).
"""
import tempfile
from pathlib import Path

from vitro.reproducing import paper_map
from vitro.running import experiments

FOLDER = Path(__file__).resolve().parent
PREFILL, MISSES, IO_SHARE = 8.0, 10.0, 76.7  # tokens/s, percent, percent
DEVICE = FOLDER / "oneplus12_neon.yaml"


def metrics(mapped, words, **changes):
    return experiments.run(mapped.experiment, overrides=mapped.overrides(words) | changes).data["metrics"]


def prefill(mapped, kernel_set, folder):
    """Tokens/s of a prompt of 512 tokens in memory, with the phone's cores priced by one kernel set."""
    device = Path(folder) / f"{kernel_set}.yaml"
    text = DEVICE.read_text().replace("kernel_set: neon", f"kernel_set: {kernel_set}")
    device.write_text(text.replace("../../../", f"{FOLDER.parents[2]}/"))
    return metrics(mapped, "llamacpp_resident bamboo inmem prefill512", device=str(device))["prefill_tokens_per_s"]


def nearest(found, wanted):
    return min(found, key=lambda choice: abs(found[choice] - wanted))


def main():
    fair = paper_map.load("pi2", FOLDER, "fair")
    with tempfile.TemporaryDirectory() as folder:
        speeds = {kernel_set: prefill(fair, kernel_set, folder) for kernel_set in ("neon", "neon-dotprod", "neon-i8mm")}
    for kernel_set, speed in speeds.items():
        print(f"kernels {kernel_set}: {speed:.1f} tokens/s", flush=True)
    words, kernels = "llmflash bamboo off50 long", {"device": str(DEVICE)}
    misses = {}
    for window in (*(tenths / 10 for tenths in range(10, 21)), 3, 4, 5):
        found = metrics(fair, words, **kernels, **{"engine.clusters.eviction": "window", "engine.clusters.window": window})
        misses[window] = 100 - 100 * found["cache_hit_rate"]
        print(f"window of {window:g} tokens: {misses[window]:.1f} % of misses", flush=True)
    window = nearest(misses, MISSES)
    shares = {}
    for depth in (1, 2, 3, 4, 8):
        found = metrics(fair, words, **kernels, **{"engine.clusters.eviction": "window", "engine.clusters.window": window,
                                                   "engine.clusters.io_depth": depth})
        shares[depth] = 100 * found["exposed_io_share"]
        print(f"{depth} reads in flight: {shares[depth]:.1f} % of I/O", flush=True)
    print(f"chosen: {nearest(speeds, PREFILL)}, a window of {window} tokens, {nearest(shares, IO_SHARE)} reads in flight")


if __name__ == "__main__":
    main()
