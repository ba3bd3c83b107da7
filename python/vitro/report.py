"""Reports: one self-contained HTML file, with its pictures inside."""
import io
import json
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from matplotlib import rc_context

from . import __version__, plot
from .result import flatten
from .terminal import number, size
from .trace import load_trace, operation

# metric -> (label, unit, factor); also the order in which people read them
METRICS = {
    "decode_tokens_per_s": ("Decode", "tokens/s", 1), "prefill_tokens_per_s": ("Prefill", "tokens/s", 1),
    "ttft_ms": ("First token", "ms", 1),
    "token_latency_ms.mean": ("Token, mean", "ms", 1), "token_latency_ms.p50": ("Token, P50", "ms", 1),
    "token_latency_ms.p90": ("Token, P90", "ms", 1), "token_latency_ms.p99": ("Token, P99", "ms", 1),
    "io_share": ("Waiting for flash", "%", 100), "cpu_utilization": ("CPU busy", "%", 100), "cache_hit_rate": ("Cache hits", "%", 100),
    "dram_bandwidth_gb_per_s": ("DRAM traffic", "GB/s", 1), "energy_j_per_token": ("Energy", "J/token", 1),
    "prefill_energy_j_per_token": ("Energy, prompt", "J/token", 1), "mean_power_w": ("Power, mean", "W", 1),
    "peak_power_w": ("Peak power", "W", 1),
    "peak_memory_bytes": ("DRAM peak", "", 1), "accelerator_mapped_bytes": ("Mapped by the accelerator", "", 1),
    "flash_bytes_read.load": ("Flash, to load", "", 1),
    "flash_bytes_read.prefill": ("Flash, prompt", "", 1), "flash_bytes_read.decode": ("Flash, decoding", "", 1),
    "load_ms": ("Load", "ms", 1), "predictor_recall": ("Predictor, recall", "%", 100),
    "predictor_precision": ("Predictor, precision", "%", 100), "seam_calls_per_token": ("Calls across the seam", "per token", 1),
}


def reading(name, value):
    """-> the value of a metric for reading, with its unit."""
    if value is None:
        return "–"
    if is_size(name):
        return size(value)
    _, unit, factor = METRICS.get(name, (name, "", 1))
    return Markup('{}<span class="unit">{}</span>').format(number(value * factor), unit)


def is_size(name):
    return name.endswith("_bytes") or "bytes_read" in name


def label_of(name):
    return METRICS.get(name, (name,))[0]


def render(path, **context):
    """Writes the report; the names of `context` are those of templates/report.html.j2."""
    page = Environment(loader=PackageLoader("vitro"), autoescape=True, trim_blocks=True).get_template("report.html.j2")
    defaults = {"kicker": "vitro", "footer": f"Made by vitro {__version__}. Traces open in ui.perfetto.dev."}
    path = Path(path)
    path.write_text(page.render(**defaults | context))
    return path


def inline(figure, salt):
    """A matplotlib figure as SVG to stand in a page; equal figures give equal bytes."""
    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg"):]
    # matplotlib numbers its elements from 1 in every figure; in one page these names would collide.
    return Markup(re.sub(r' id="[A-Za-z0-9.]+_[0-9]+"', "", svg))


def picture(title, figure, text=""):
    return {"title": title, "text": text, "svg": inline(figure, title)}


def experiment_details(name, result):
    resolved = result.get("experiment_resolved") or {}
    return {"name": name, "hash": result.get("event_hash"), "json": json.dumps(resolved, indent=2)}


def write_run(result, out):
    """report.html beside the trace of one run."""
    metrics = flatten(result.metrics)
    trace = load_trace(out)
    title = f"{result['experiment']} on {result.machine}"
    figures = [picture("What the units did", plot.gantt(trace, **token_window(trace, result)), "One token from the middle of the run."),
               picture("How busy they were", plot.activity(trace))]
    memory = plot.memory(trace, budget_bytes=result.budget_bytes)
    bandwidth = plot.bandwidth(trace)
    figures += [picture("Memory", memory)] if memory else []
    figures += [picture("Bandwidth", bandwidth)] if bandwidth else []
    names = [*METRICS, *(name for name in metrics if name not in METRICS)]
    rows = [[label_of(name), reading(name, metrics.get(name))] for name in names if not isinstance(metrics.get(name), list)]
    cards = [{"label": label_of(name), "value": number(metrics[name] * METRICS[name][2]), "unit": METRICS[name][1], "kind": result.machine}
             for name in ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "energy_j_per_token") if metrics.get(name) is not None]
    checks = [{"ok": row["status"] == "ok", "text": f"{row['id']}: {row['metric']} {number(row['measured'])} "
               f"{row['relation']} {number(row['expected'])}"} for row in result.expectations]
    return render(Path(out) / "report.html", title=title, checks=checks, cards=cards, figures=figures,
                  tables=[{"title": "Metrics", "columns": [{"label": "metric"}, {"label": "value", "number": True}], "rows": rows}],
                  story=story_of(result), notes=result.get("notes", []), assumed=result.get("assumed_parameters", []),
                  experiments=[experiment_details(title, result)])


def story_of(result, caption="Greedy or sampled as the experiment says."):
    prompt = ((result.get("experiment_resolved") or {}).get("workload") or {}).get("prompt")
    return {"prompt": prompt or "", "text": result.text, "caption": caption} if result.text else None


def token_window(trace, result, tokens=1):
    """-> {"begin_us", "end_us"}: `tokens` tokens from the middle of the run, the same ones in every run of the experiment.

    A token begins where its embedding is looked up; traces without such spans are cut by the median latency.
    """
    begins = sorted({row[3] for row in trace.span_rows if operation(row[2]) == "embed"})
    if len(begins) > 2 * tokens:
        first = len(begins) // 2
        return {"begin_us": begins[first], "end_us": begins[first + tokens]}
    latency = (result.metrics.get("token_latency_ms") or {}).get("p50")
    if not latency:
        return {"begin_us": 0.0, "end_us": trace.end_us}
    width = min(tokens * latency * 1e3, trace.end_us)
    first = min((result.metrics.get("ttft_ms") or 0.0) * 1e3, trace.end_us)
    begin = max(0.0, min(trace.end_us - width, (first + trace.end_us) / 2))
    return {"begin_us": begin, "end_us": begin + width}


_SWEPT = ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "io_share", "peak_memory_bytes", "energy_j_per_token")


def write_sweep(frame, points, results, base, folder):
    """report.html of a sweep: the table and a picture per headline metric."""
    from . import grid
    keys = ["label"] if "label" in frame.columns else list(dict.fromkeys(key for point in points for key in point))
    names = [name for name in METRICS if name in frame.columns and frame[name].notna().any()]
    records = grid.as_records(frame)
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
    return render(folder / "report.html", kicker="vitro sweep", title=base.get("experiment", "sweep"), checks=checks, figures=figures,
                  tables=[{"title": "Points", "columns": columns, "rows": rows, "text": "Also in results.parquet and results.csv."}],
                  notes=[*(f"Point {row['point']} failed: {row['error']}" for row in failed), *dict.fromkeys(notes)],
                  assumed=list(dict.fromkeys(assumed)),
                  experiments=[{"name": "The experiment, before the sweep's overrides", "json": json.dumps(base, indent=2)}])
