"""report.html of a sweep or a search."""
import json
import re

from .. import plot
from ..plot.pareto import trials
from ..report.page import METRICS, label_of, picture, reading, render
from . import compared
from .table import as_records

DRAWN = ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "exposed_io_share", "peak_memory_bytes", "energy_j_per_token")


def write_sweep(frame, points, results, base, folder):
    """The table and a picture per headline metric."""
    keys = ["label"] if "label" in frame.columns else list(dict.fromkeys(key for point in points for key in point))
    figures = [picture(label_of(name), plot.series(frame, keys, name, METRICS.get(name, (name, "", 1))))
               for name in DRAWN if name in frame.columns and frame[name].notna().any() and len(frame) > 1]
    _write("vitro sweep", frame, keys, results, base, folder, figures, [])


def write_search(frame, results, base, folder):
    """The front, its picture, what is compared with it, and all points."""
    objectives, rows = frame.attrs["objectives"], frame.attrs["compared"]
    said = ", ".join(f"{label_of(name)}: {way}" for name, way in objectives.items())
    figures = [picture("Front", trials(frame, objectives, METRICS, rows), said)] if frame["front"].any() else []
    _write("vitro search", frame, frame.attrs["keys"], results, base, folder, figures,
           [("Points on the front", frame[frame["front"]], f"{said}. Also in front.csv.")],
           [compared_table(rows, objectives)] if rows else [])


def compared_table(rows, objectives):
    """For the templates, of both the report and the site."""
    columns, cells = compared.readable(rows, objectives)
    heads = [label_of(name.removeprefix(">")) for name in columns]
    return {"title": "Compared with the front", "text": f"{compared.EXPLAINED}. Also in compared.csv.", "rows": cells,
            "columns": [{"label": head, "number": name.startswith(">")} for head, name in zip(heads, columns)]}


def notes_and_assumed(results):
    """-> (notes, assumed parameters) of all results, each once. Notes lose their numbers of events, which differ between points."""
    notes, assumed = {}, {}
    for result in results:
        notes |= {re.sub(r"; \d+ events$", "", note): None for note in result.get("notes", [])}
        assumed |= dict.fromkeys(result.get("assumed_parameters", []))
    return list(notes), list(assumed)


def _write(kicker, frame, keys, results, base, folder, figures, tables, more=()):
    names = [name for name in METRICS if name in frame.columns and frame[name].notna().any()]
    columns = [{"label": "point", "number": True}, *({"label": key, "kind": "name" if key == "label" else ""} for key in keys),
               *({"label": label_of(name), "number": True, "edge": i == 0} for i, name in enumerate(names)), {"label": "status"}]

    def table(title, part, text):
        rows = [[row["point"], *("–" if row[key] is None else row[key] for key in keys), *(reading(name, row[name]) for name in names),
                 row["status"]] for row in as_records(part)]
        return {"title": title, "columns": columns, "rows": rows, "text": text}

    records = as_records(frame)
    failed = [row for row in records if row["status"] == "failed"]
    checks = [{"ok": not failed, "text": f"{len(records) - len(failed)} of {len(records)} points ran"}]
    notes, assumed = notes_and_assumed(result for result in results if result)
    render(folder / "report.html", kicker=kicker, title=base.get("experiment", "sweep"), checks=checks, figures=figures,
           tables=[*(table(*one) for one in tables), *more, table("Points", frame, "Also in results.parquet and results.csv.")],
           notes=[*(f"Point {row['point']} failed: {row['error']}" for row in failed),
                  *(f"{row['label']} failed: {row['error']}" for row in frame.attrs.get("compared", ()) if row["error"]),
                  *notes],
           assumed=assumed,
           experiments=[{"name": "The experiment, before the sweep's overrides", "json": json.dumps(base, indent=2)}])
