"""Reports: one self-contained HTML file, with its pictures inside."""
import io
import json
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from matplotlib import rc_context

from ..base.terminal import number, size
from ..base.version import __version__
from ..base.whole_files import in_place
from ..trace.rows import named
from ..trace.spans import operation

# metric -> (label, unit, factor); also the order in which people read them
METRICS = {
    "decode_tokens_per_s": ("Decode", "tokens/s", 1), "prefill_tokens_per_s": ("Prefill", "tokens/s", 1),
    "ttft_ms": ("First token", "ms", 1),
    "token_latency_ms.mean": ("Token, mean", "ms", 1), "token_latency_ms.p50": ("Token, P50", "ms", 1),
    "token_latency_ms.p90": ("Token, P90", "ms", 1), "token_latency_ms.p99": ("Token, P99", "ms", 1),
    "exposed_io_share": ("Waiting for flash", "%", 100), "cpu_utilization": ("CPU busy", "%", 100),
    "cache_hit_rate": ("Cache hits", "%", 100),
    "dram_bandwidth_gb_per_s": ("DRAM traffic", "GB/s", 1), "energy_j_per_token": ("Energy", "J/token", 1),
    "prefill_energy_j_per_token": ("Energy, prompt", "J/token", 1), "mean_power_w": ("Power, mean", "W", 1),
    "peak_power_w": ("Peak power", "W", 1),
    "peak_memory_bytes": ("DRAM peak", "", 1), "accelerator_mapped_bytes": ("Mapped by the accelerator", "", 1),
    "flash_bytes_read.load": ("Flash, to load", "", 1),
    "flash_bytes_read.prefill": ("Flash, prompt", "", 1), "flash_bytes_read.decode": ("Flash, decoding", "", 1),
    "load_ms": ("Load", "ms", 1), "predictor_recall": ("Predictor, recall", "%", 100),
    "predictor_precision": ("Predictor, precision", "%", 100), "unit_submissions_per_token": ("Unit submissions", "per token", 1),
    "storage_submissions_per_token": ("Storage submissions", "per token", 1),
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
    """Writes the report, whole at any time; the names of `context` are those of templates/report.html.j2."""
    page = Environment(loader=PackageLoader("vitro.report"), autoescape=True, trim_blocks=True).get_template("report.html.j2")
    defaults = {"kicker": "vitro", "footer": f"Made by vitro {__version__}. Traces open in ui.perfetto.dev."}
    path = Path(path)
    with in_place(path) as unfinished:
        unfinished.write_text(page.render(**defaults | context))
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


def story_of(result, caption="Greedy or sampled as the experiment says."):
    prompt = ((result.get("experiment_resolved") or {}).get("workload") or {}).get("prompt")
    return {"prompt": prompt or "", "text": result.text, "caption": caption} if result.text else None


def token_window(trace, result, tokens=1):
    """-> {"begin_us", "end_us"}: `tokens` tokens from the middle of the run, the same ones in every run of the experiment.

    A token begins where its embedding is looked up; traces without such spans are cut by the median latency.
    """
    begins = sorted({row[3] for row in named(trace.span_rows, lambda name: operation(name) == "embed")})
    if len(begins) > 2 * tokens:
        first = len(begins) // 2
        return {"begin_us": begins[first], "end_us": begins[first + tokens]}
    latency = (result.metrics.get("token_latency_ms") or {}).get("p50")
    if not latency:
        return {"begin_us": trace.begin_us, "end_us": trace.end_us}
    width = min(tokens * latency * 1e3, trace.end_us - trace.begin_us)
    first = max(trace.begin_us, min((result.metrics.get("ttft_ms") or 0.0) * 1e3, trace.end_us))
    begin = max(trace.begin_us, min(trace.end_us - width, (first + trace.end_us) / 2))
    return {"begin_us": begin, "end_us": begin + width}
