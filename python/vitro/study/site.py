"""A study as a static site: a table that sorts and filters, pictures, and a page for each point. Works from a file, without a network."""
import json
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from .. import plot
from ..base.terminal import number
from ..base.version import __version__
from ..base.whole_files import in_place
from ..errors import ConfigError
from ..plot.pareto import trials
from ..report.page import METRICS, is_size, label_of, picture, reading
from .report import DRAWN, compared_table, notes_and_assumed
from .site_devices import Devices
from .study import Study, column_of
from .values import text_of

_MOST_CHOICES = 12  # values of a key that are offered in a list
FOOTER = f"Made by vitro {__version__}."


def write_site(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Writes the site of the study in `folder` (what `vitro sweep --out` or `vitro search --out` writes) and returns its index.html.
    A point's number is that of the table which was written last; a row that is not in it goes by its identity. out: where to; folder/site
    unless given. Raises ConfigError for a folder without a finished point."""
    folder = Path(folder)
    site = Path(out) if out is not None else folder / "site"
    frame, table = Study(folder)._rows(heavy=True), _table(folder)
    if not len(frame):
        raise ConfigError(f"{folder}: has no finished point to show")
    frame = _numbered(frame, table)
    keys = _swept(frame)
    shown = [name for name in METRICS if name in frame.columns and frame[name].notna().any()]
    title = str(frame["experiment"].iloc[0])
    for name in ("points", "devices"):
        (site / name).mkdir(parents=True, exist_ok=True)
    for name in ("site.css", "site.js"):
        _write(site / name, resources.files("vitro.report").joinpath("templates", name).read_text())
    pages = Environment(loader=PackageLoader("vitro.report"), autoescape=True, trim_blocks=True)
    traced, devices = _traces(folder, table), Devices()
    template = pages.get_template("site_point.html.j2")
    rows = []
    for row in frame.to_dict("records"):
        page, called = f"{row['page']}.html", row["number"] or row["page"][:12]
        name = f"Point {called}"
        values = [row[f"point.{key}"] for key in keys]
        rows.append({"page": page, "cells": [_cell(row["number"], called), *(_cell(value, _text(value)) for value in values),
                                             *(_cell(row[metric], _amount(metric, row[metric])) for metric in shown)]})
        _write(site / "points" / page, template.render(
            title=title, name=name, footer=FOOTER, keys=[(key, _text(value)) for key, value in zip(keys, values)],
            traces=[(file.name, os.path.relpath(file, site / "points")) for file in traced.get((row["identity"], row["repeat"]), [])],
            metrics=_metrics(row), **_answer(row, devices)))
    for page, name, resolved in devices.pages():
        _write(site / "devices" / page, pages.get_template("site_device.html.j2").render(title=title, name=name, resolved=resolved,
                                                                                        footer=FOOTER))
    _take_away(site / "points", {row["page"] for row in rows})
    _take_away(site / "devices", {page for page, _, _ in devices.pages()})
    columns = [{"label": "point", "number": True, "at": 0},
               *({"label": key, "number": False, "at": 1 + i, "choices": _choices(frame[f"point.{key}"])} for i, key in enumerate(keys)),
               *({"label": _headed(metric), "number": True, "at": 1 + len(keys) + i} for i, metric in enumerate(shown))]
    named = frame.assign(**{key: column_of(frame, key) for key in keys})
    objectives, rivals = (table.attrs.get(name) if table is not None else None for name in ("objectives", "compared"))
    figures = [picture("Front", trials(table, objectives, METRICS, rivals or ()))] if objectives and table["front"].any() else []
    figures += [picture(label_of(metric), plot.series(named, keys, metric, METRICS.get(metric, (metric, "", 1))))
               for metric in DRAWN if metric in frame.columns and frame[metric].notna().any() and len(frame) > 1 and keys]
    notes, assumed = notes_and_assumed([json.loads(text) for text in frame["answer"]])
    _write(site / "index.html", pages.get_template("site_index.html.j2").render(
        title=title, rows=rows, columns=columns, figures=figures, provenance=_origins(frame), notes=notes, assumed=assumed,
        failed=_failed(table), compared=compared_table(rivals, objectives) if rivals and objectives else None, footer=FOOTER))
    return site / "index.html"


def _write(path, text):
    """A whole file. It can be made again, so nothing waits for the disk, as a rename over an earlier file does on ext4."""
    with in_place(path) as unfinished:
        unfinished.write_text(text)
        path.unlink(missing_ok=True)


def _take_away(folder, kept):
    """Pages of an earlier site."""
    for path in folder.glob("*.html"):
        if path.name not in kept and re.fullmatch(r"[0-9a-f]{5,}(-[0-9]+)?\.html", path.name):
            path.unlink()


def _numbered(frame, table):
    """With `number`, a text, of each row in the table, the name of what a search was compared with, "" of others, and the name of its page;
    in the order of numbers."""
    known = {} if table is None else {(row["identity"], row["repeat"]): int(row["point"]) for row in table.to_dict("records")}
    names = {} if table is None else {(row.get("identity"), row.get("repeat")): row["label"] for row in table.attrs.get("compared") or ()}
    numbers = [known.get(key) for key in zip(frame["identity"], frame["repeat"])]
    frame = frame.assign(number=[names.get(key, "") if at is None else str(at)
                                 for key, at in zip(zip(frame["identity"], frame["repeat"]), numbers)],
                         page=[f"{identity}-{repeat}" if at is None else f"{at:05d}"
                               for at, identity, repeat in zip(numbers, frame["identity"], frame["repeat"])])
    order = sorted(range(len(frame)), key=lambda row: (numbers[row] is None, numbers[row] or 0))
    return frame.iloc[order].reset_index(drop=True)


def _swept(frame):
    """Keys whose values differ between points; all of them where none does."""
    keys = [name.removeprefix("point.") for name in frame.columns if name.startswith("point.")]
    return [key for key in keys if frame[f"point.{key}"].map(text_of).nunique() > 1] or keys


def _cell(value: Any, text: Any) -> dict[str, Any]:
    return {"value": "" if value is None or value != value else text_of(value), "text": text}


def _text(value):
    return "–" if value is None or value != value else str(value)


def _amount(metric, value):
    """For a column whose head has the unit."""
    return reading(metric, value) if is_size(metric) or value != value else number(value * METRICS[metric][2])


def _headed(metric):
    label, unit, _ = METRICS.get(metric, (metric, "", 1))
    return f"{label}, {unit}" if unit else label


def _choices(column):
    found = {text_of(value): None for value in column if value is not None and value == value}
    return list(found) if 1 < len(found) <= _MOST_CHOICES else []


def _metrics(row):
    """(label, value with unit) of every metric that the row has, those that people read first in front."""
    names = [name for name in row if isinstance(row[name], (int, float)) and not isinstance(row[name], bool) and row[name] == row[name]
             and not name.startswith("point.") and name not in ("repeat", "tries", "format", "wall_s")]
    order = {name: at for at, name in enumerate(METRICS)}
    return [(label_of(name), reading(name, row[name]) if name in METRICS or is_size(name) else number(row[name]))
            for name in sorted(names, key=lambda name: (order.get(name, len(order)), name))]


def _answer(row, devices):
    answer, resolved = json.loads(row["answer"]), json.loads(row["resolved"]) or {}
    device = devices.of(resolved)
    files = json.loads(row["files"] or "{}")
    provenance = [("identity", row["identity"]), ("engine", f"SHA-256 {row['engine'][:16]}, {_revision(row)}"), ("vitro", row["vitro"]),
                  ("machine", row["machine"]), *((f"file {Path(path).name}", f"SHA-256 {digest[:16]}") for path, digest in files.items()),
                  ("host", ", ".join(f"{key} {value}" for key, value in (json.loads(row["host"] or "null") or {}).items()) or "–"),
                  ("finished", f"{row['finished']}, in {number(row['wall_s'])} s"), ("event hash", answer.get("event_hash") or "–"),
                  ("assumed parameters", ", ".join(answer.get("assumed_parameters", [])) or "none")]
    return {"text": answer.get("text") or "", "provenance": provenance, "notes": answer.get("notes", []),
            "device": device, "resolved": json.dumps({key: value for key, value in resolved.items() if device is None or key != "device"},
                                                     indent=2, ensure_ascii=False)}


def _revision(row):
    return f"revision {(row['revision'] or 'unknown')[:12]}{' with changes' if row['dirty'] else ''}"


def _origins(frame):
    def all_of(column):
        return ", ".join(sorted({str(value)[:16] for value in frame[column].dropna()}))
    return [("machines", all_of("machine")), ("engines, SHA-256", all_of("engine")), ("revisions", all_of("revision")),
            ("versions of vitro", all_of("vitro")), ("first and last point", f"{frame['finished'].min()} and {frame['finished'].max()}")]


def _failed(table):
    """How many points of the table that was written last failed. The store has none of them."""
    return 0 if table is None else int((table["status"] == "failed").sum())


def _table(folder):
    """That was written last, or None where there is none yet, or one that names no rows of the store."""
    import pandas
    path = folder / "results.parquet"
    table = pandas.read_parquet(path) if path.exists() else None
    return table if table is not None and {"point", "status", "identity", "repeat"} <= set(table.columns) else None


def _traces(folder, table):
    """-> {(identity, repeat): files of a point}: those of `vitro sweep --trace`, which numbers points as the table does."""
    found: dict[Any, list[Path]] = {}
    for row in () if table is None else table.to_dict("records"):
        if (path := folder / "traces" / f"{row['point']:05d}").is_dir():
            found[row["identity"], row["repeat"]] = sorted(path.iterdir())
    return found
