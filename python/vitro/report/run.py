"""report.html beside the trace of one run."""
from pathlib import Path

from .. import plot
from ..base.metric_units import OLD_NAMES
from ..base.terminal import number
from ..base.trees import flatten
from ..trace.trace import load_trace
from .page import METRICS, experiment_details, label_of, picture, reading, render, story_of, token_window


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
    names = [*METRICS, *(name for name in metrics if name not in METRICS and name not in OLD_NAMES)]
    rows = [[label_of(name), reading(name, metrics.get(name))] for name in names if not isinstance(metrics.get(name), list)]
    cards = [{"label": label_of(name), "value": number(metrics[name] * METRICS[name][2]), "unit": METRICS[name][1], "kind": result.machine}
             for name in ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "energy_j_per_token") if metrics.get(name) is not None]
    checks = [{"ok": row["status"] == "ok", "text": f"{row['id']}: {row['metric']} {number(row['measured'])} "
               f"{row['relation']} {number(row['expected'])}"} for row in result.expectations]
    return render(Path(out) / "report.html", title=title, checks=checks, cards=cards, figures=figures,
                  tables=[{"title": "Metrics", "columns": [{"label": "metric"}, {"label": "value", "number": True}], "rows": rows}],
                  story=story_of(result), notes=result.get("notes", []), assumed=result.get("assumed_parameters", []),
                  experiments=[experiment_details(title, result)])
