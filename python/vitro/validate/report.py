"""The page of `vitro validate`: predicted against measured, worst first, each row with its traces."""
from pathlib import Path

from markupsafe import Markup

from ..base.terminal import number
from ..base.trees import flatten
from ..plot import style
from ..report import page
from . import energy

SHOWN = {"decode_tokens_per_s": "decode", "prefill_tokens_per_s": "prefill", "token_latency_ms.p90": "P90"}


def write_report(answer, folder):
    """report.html in the folder that holds the traces."""
    s = answer["summary"]
    rows = sorted(answer["rows"], key=lambda row: -abs(row["relative_error"]["decode_tokens_per_s"] or 0))
    columns = [{"label": "experiment"}, {"label": "host", "kind": "host", "number": True, "edge": True},
               {"label": "sim", "kind": "sim", "number": True}, {"label": "band", "number": True},
               *({"label": label, "number": True, "edge": i == 0} for i, label in enumerate(SHOWN.values())),
               {"label": "host again", "number": True, "edge": True}, {"label": "decisions"}, {"label": "traces"}]
    cells = [[_name(row), number(row["host"]["decode_tokens_per_s"]), number(row["sim"]["decode_tokens_per_s"]), _band(row),
              *(_percent(flatten(row["relative_error"])[name]) for name in SHOWN), _percent(row["host_against_host"], sign=False),
              _equal(row), _links(row)] for row in rows]
    checks = [{"ok": bound["holds"], "text": f"{bound['bound']}: {_said(bound['measured'])} (limit {_said(bound['limit'])})"}
              for bound in s["bounds"]]
    cards = [{"label": "Decode, mean error", "value": _percent(s["mape_decode"], sign=False), "kind": "sim"},
             {"label": "P90 latency, mean error", "value": _percent(s["mape_p90"], sign=False), "kind": "sim"},
             {"label": "Host against itself", "value": _percent(s["host_against_host"], sign=False), "kind": "host",
              "note": "how far one run is from the median of the others"},
             {"label": "Ordered alike", "value": _percent(s["rank_agreement"], sign=False),
              "note": f"of {s['pairs']} pairs that differ by over 10 %"},
             {"label": "Inside the band", "value": _percent(s["inside_band"], sign=False)}]
    notes = [f"{row['id']}: {note}" for row in answer["rows"] for note in row["notes"]]
    made = answer.get("calibration") or {}
    return page.render(
        Path(folder) / "report.html", kicker="vitro validate", title=f"{answer['suite']}: predicted and measured",
        checks=checks, cards=cards, lede=s["why"],
        figures=[page.picture("Decode speed", scatter(answer["rows"], "decode_tokens_per_s", "tokens/s"),
                                "On the line the prediction is right. Bars: the prediction's error band, and the range of the real runs."),
                 page.picture("P90 latency", scatter(answer["rows"], "token_latency_ms.p90", "ms"))],
        tables=[{"title": "Worst first", "columns": columns, "rows": cells,
                 "text": "Decode speed in tokens/s, then the error of the simulation for each metric. Traces open in ui.perfetto.dev."},
                *_energy(answer["rows"])],
        provenance=f"Device {answer['device']}, calibrated {made.get('date') or 'at an unknown time'} on "
        f"{made.get('cpu') or 'an unknown CPU'}, kernel {made.get('kernel') or 'unknown'}.", notes=notes)


def _energy(rows):
    """-> the table of measured energy, if there is any."""
    cells = [[name, *(_percent(value) if column == "off" else number(value) for column, value in zip(energy.COLUMNS, values)),
              *values[len(energy.COLUMNS):]] for name, *values in energy.table(rows)]
    columns = [{"label": "experiment"}, *({"label": name, "number": True} for name in energy.COLUMNS), {"label": "by"}, {"label": "sign"}]
    return [{"title": "Energy", "columns": columns, "rows": cells, "text": "Measured at the battery beside simulated."}] if cells else []


@style.styled
def scatter(rows, metric, unit):
    """Predicted over measured on logarithmic axes, with error bars of both."""
    figure, (ax,) = style.axes_of(height=4.6)
    rows = [row | {side: flatten(row[side]) for side in ("host", "sim")} for row in rows]
    points = [row for row in rows if row["host"].get(metric) and row["sim"].get(metric)]
    if not points:
        return figure
    families = list(dict.fromkeys(_family(row) for row in points))
    for color, family in zip(style.WORK * 9, families):
        some = [row for row in points if _family(row) == family]
        x, y = ([row[side][metric] for row in some] for side in ("host", "sim"))
        bands = [(row.get("band") or {}).get(metric) or [value, value] for row, value in zip(some, y)]
        above = [[value - band[0] for value, band in zip(y, bands)], [band[1] - value for value, band in zip(y, bands)]]
        beside = None
        if metric == "decode_tokens_per_s":
            runs = [[run for run in row["host_runs"] if run] or [value] for row, value in zip(some, x)]
            beside = [[max(0, value - min(run)) for value, run in zip(x, runs)], [max(0, max(run) - value) for value, run in zip(x, runs)]]
        ax.errorbar(x, y, yerr=above, xerr=beside, fmt="o", markersize=5, color=color, ecolor=color, elinewidth=1, alpha=0.85, label=family)
    values = [row[side][metric] for row in points for side in ("host", "sim")]
    ends = [min(values) / 1.3, max(values) * 1.3]
    ax.plot(ends, ends, color=style.paper()["faint"], linewidth=1)
    ax.fill_between(ends, [0.9 * end for end in ends], [1.1 * end for end in ends], color=style.paper()["faint"], alpha=0.13, linewidth=0)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"measured, {unit}", ylabel=f"predicted, {unit}")
    figure.legend(loc="outside lower center", ncols=6, handlelength=1)
    return figure


def _family(row):
    return row["id"].split("-")[0] + next((f", {part.split('=')[1]}" for part in row["id"].split("-") if part.startswith("policy=")), "")


def _name(row):
    model, _, rest = row["id"].partition("-")
    return Markup("<b>{}</b><br><small>{}</small>").format(model, rest.replace("-", ", ").replace("=", " "))


def _band(row):
    band = (row.get("band") or {}).get("decode_tokens_per_s")
    return "–" if band is None else f"{number(band[0])}\u202f–\u202f{number(band[1])}"


def _equal(row):
    differs = [what for what, same in (("tokens", row["tokens_equal"]), ("bytes", row["bytes_equal"]),
                                       ("decisions", (row["decisions"] or {"equal": True})["equal"])) if not same]
    return f"other {', '.join(differs)}" if differs else "equal"


def _links(row):
    links = [Markup('<a href="{}">{}</a>').format(path, machine) for machine, path in (row.get("traces") or {}).items()]
    return Markup(" ").join(links) or "–"


def _percent(value, sign=True):
    return "–" if value is None else f"{value:+.1%}" if sign else f"{value:.1%}"


def _said(value):
    return str(value).lower() if isinstance(value, bool) else _percent(value, sign=False)
