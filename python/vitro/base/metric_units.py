"""Which unit a metric of a result has, by its name (docs/reference/results.md), and which names are old ones."""

from typing import Any

# Of metrics that a result also has under their present names: in JSON, for older scripts. {old: present}
OLD_NAMES = {"seam_calls_per_token": "unit_submissions_per_token", "io_share": "exposed_io_share"}
_ENDINGS = (("_tokens_per_s", "tokens/s"), ("gb_per_s", "GB/s"), ("_j_per_token", "J/token"), ("_per_token", "1/token"), ("_bytes", "B"),
            ("_ms", "ms"), ("_us", "us"), ("_w", "W"), ("_s", "s"), ("_j", "J"))
_PARENTS = (("bytes_read.", "B"), ("_ms.", "ms"), ("_us.", "us"), ("_j.", "J"))
_SHARES = ("_share", "_rate", "utilization", "recall", "precision")


def with_present_names(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics by name, of whatever version, also under the names that they have now."""
    return {**{now: metrics[old] for old, now in OLD_NAMES.items() if old in metrics}, **metrics}


def unit_of(metric: str) -> str:
    """-> "tokens/s", "ms", "B", "J/token", "share" (0 to 1) or such; "" for a count or what has no unit. metric: its dotted name."""
    leaf = f"_{metric.rpartition('.')[2]}"
    if metric == "cpu_cycles":
        return "cycles"
    if leaf.endswith("tokens_per_s"):
        return "tokens/s"
    if leaf.endswith(_SHARES):
        return "share"
    by_leaf = next((unit for ending, unit in _ENDINGS if leaf.endswith(ending)), None)
    return by_leaf if by_leaf is not None else next((unit for inside, unit in _PARENTS if inside in metric), "")
