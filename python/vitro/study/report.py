"""report.html of a sweep."""
import json

from .. import plot
from ..report.page import METRICS, label_of, picture, reading, render
from .files import in_place
from .table import as_records

_SWEPT = ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "io_share", "peak_memory_bytes", "energy_j_per_token")


def write_sweep(frame, points, results, base, folder):
    """report.html of a sweep: the table and a picture per headline metric."""
    keys = ["label"] if "label" in frame.columns else list(dict.fromkeys(key for point in points for key in point))
    names = [name for name in METRICS if name in frame.columns and frame[name].notna().any()]
    records = as_records(frame)
    rows = [[row["point"], *("–" if row[key] is None else row[key] for key in keys), *(reading(name, row[name]) for name in names),
             row["status"]] for row in records]
    columns = [{"label": "point", "number": True}, *({"label": key, "kind": "name" if key == "label" else ""} for key in keys),
               *({"label": label_of(name), "number": True, "edge": i == 0} for i, name in enumerate(names)), {"label": "status"}]
    failed = [row for row in records if row["status"] == "failed"]
    checks = [{"ok": not failed, "text": f"{len(records) - len(failed)} of {len(records)} points ran"}]
    figures = [picture(label_of(name), plot.series(frame, keys, name, METRICS.get(name, (name, "", 1))))
               for name in _SWEPT if name in names and len(frame) > 1]
    notes = [note for result in results if result for note in result.get("notes", [])]
    assumed = [name for result in results if result for name in result.get("assumed_parameters", [])]
    with in_place(folder / "report.html") as path:
        render(path, kicker="vitro sweep", title=base.get("experiment", "sweep"), checks=checks, figures=figures,
               tables=[{"title": "Points", "columns": columns, "rows": rows, "text": "Also in results.parquet and results.csv."}],
               notes=[*(f"Point {row['point']} failed: {row['error']}" for row in failed), *dict.fromkeys(notes)],
               assumed=list(dict.fromkeys(assumed)),
               experiments=[{"name": "The experiment, before the sweep's overrides", "json": json.dumps(base, indent=2)}])
