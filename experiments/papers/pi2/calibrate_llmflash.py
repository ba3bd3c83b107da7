"""Sets what PowerInfer-2 does not state of LLMFlash as its section 7.1 re-implemented it: the window of its cache by the 10 % of misses
(pi2_llmflash_flash_miss), then its reads in flight by the 76.7 % of I/O in Table 4 (pi2_t4_llmflash_io_share).

    python experiments/papers/pi2/calibrate_llmflash.py

prints both searches; map.yaml has what they chose. No speed is looked at.
"""
from pathlib import Path

from vitro.reproducing import paper_map
from vitro.running import experiments

MISSES, IO_SHARE = 10.0, 76.7  # percent
WORDS = "llmflash bamboo off50 long"


def measured(mapped, **changes):
    overrides = mapped.overrides(WORDS) | {f"engine.clusters.{key}": value for key, value in changes.items()}
    metrics = experiments.run(mapped.experiment, overrides=overrides).data["metrics"]
    return 100 - 100 * metrics["cache_hit_rate"], 100 * metrics["io_share"]


def main():
    mapped = paper_map.load("pi2", Path(__file__).parent)
    misses = {}
    for window in range(1, 9):
        misses[window], share = measured(mapped, eviction="window", window=window)
        print(f"window of {window} tokens: {misses[window]:.1f} % of misses, {share:.1f} % of I/O")
    window = min(misses, key=lambda tokens: abs(misses[tokens] - MISSES))
    shares = {}
    for depth in (1, 2, 3, 4, 6, 8, 16):
        _, shares[depth] = measured(mapped, eviction="window", window=window, io_depth=depth)
        print(f"window of {window} tokens, {depth} reads in flight: {shares[depth]:.1f} % of I/O")
    print(f"chosen: a window of {window} tokens, {min(shares, key=lambda depth: abs(shares[depth] - IO_SHARE))} reads in flight")


if __name__ == "__main__":
    main()
