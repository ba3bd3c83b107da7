"""The rows of a sweep, for reading."""
import json

import yaml

from ..base.whole_files import in_place
from ..running.result import named

HEADLINES = ("decode_tokens_per_s", "prefill_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "exposed_io_share", "cache_hit_rate",
              "energy_j_per_token", "peak_memory_bytes")


def as_records(frame):
    """Rows as plain JSON values: NaN, which JSON lacks, becomes null."""
    return json.loads(frame.to_json(orient="records", double_precision=15))


def write_table(frame, folder):
    """results.parquet and results.csv, whole at any time: another process may share the sweep and write them, too."""
    with in_place(folder / "results.parquet") as path:
        frame.to_parquet(path, index=False)
    with in_place(folder / "results.csv") as path:
        frame.to_csv(path, index=False)


def swept(frame):
    """The columns that tell points apart: their labels, else the keys that were swept."""
    if "label" in frame.columns:
        return ["label"]
    keys = list(frame.columns[3:])
    machine = ["machine"] if frame["machine"].nunique() > 1 else []
    return machine + keys[:next((i for i, key in enumerate(keys) if key in HEADLINES or key == "error"), len(keys))]


def readable(frame):
    """-> (columns, rows) of the few columns that a person looks at first."""
    from ..base.terminal import number
    keys = swept(frame)
    wanted = frame.attrs.get("metrics")
    shown = [key for key in (named(frame.columns, wanted) if wanted else HEADLINES) if key in frame.columns and frame[key].notna().any()]
    columns = ["point", *keys, *(">" + key for key in shown), "status"]
    rows = [[row["point"], *("–" if row[key] is None else row[key] for key in keys), *(number(row[key]) for key in shown),
             row["status"]] for row in as_records(frame)]
    return columns, rows


def written(value):
    """[cpu0, cpu1], true, 5 MiB: as in a file."""
    if isinstance(value, str):
        return value
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()
