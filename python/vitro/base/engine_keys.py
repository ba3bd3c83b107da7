"""What keys of an engine's earlier versions are called in a resolved experiment (engine/app/old_engine_keys.cpp has the same list)."""

RENAMED = {
    "units": "placement.units", "threads": "placement.threads", "outliers": "placement.outliers", "sessions": "placement.sessions",
    "activations": "products.numerics", "prefill_activations": "products.prefill_numerics", "repack": "weights.repack",
    "layout": "weights.layout", "embedding": "weights.embedding", "read_ahead": "weights.read_ahead", "kv_format": "kv.format",
    "kv_per": "kv.per", "kv_block_tokens": "kv.block_tokens", "kv_dram_tokens": "kv.dram_tokens", "kv_prefetch": "kv.prefetch",
    "clusters.eviction": "weights.eviction", "clusters.admission": "weights.admission", "clusters.window": "weights.window",
    "clusters.staging": "weights.staging",
    "clusters.bundle": "weights.bundle", "clusters.two_phases": "weights.two_phases", "clusters.cache": "weights.cache",
    "clusters.report_bound": "weights.report_bound", "hybrid.cluster": "ffn.clusters.hot_cluster",
    "hybrid.in_dram": "ffn.clusters.hot_in_dram", "hybrid.unit": "placement.unit", "moe.units": "placement.graph_units",
    "moe.attention": "placement.attention",
}
MOVED = {"clusters": "ffn.clusters", "hybrid": "placement", "moe": "ffn.experts"}  # maps, but for the keys above


def present_name(key: str) -> str:
    """"engine.units" -> "engine.placement.units"; any other key as it is. `engine.kernels` and `engine.numerics` have no name of their own
    today: what they set hangs on their value."""
    part, _, own = key.partition(".")
    if part != "engine":
        return key
    first, _, rest = own.partition(".")
    if own in RENAMED:
        return f"engine.{RENAMED[own]}"
    return f"engine.{MOVED[first]}.{rest}" if rest and first in MOVED else key
