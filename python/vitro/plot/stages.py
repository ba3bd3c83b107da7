"""Pictures of the NPU's stages: what its worker did, by the worker's own log, beside what the simulated NPU did of the same plan."""
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from .style import OTHER, READ, WORK, WRITE, axes_of, styled

STAGES = {"activations": OTHER, "in": READ, "vector": WORK[0], "matrix": WORK[2], "out": WRITE}
UNITS = {"activations": "dma", "in": "dma", "out": "dma", "matrix": "matrix unit", "vector": "hvx"}
ORDER = ("activations", "in", "vector", "matrix", "out")


def worker_spans(timeline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Stages of a worker's log with the model's durations, as {unit, stage, step, begin, end} in seconds.

    The log says which unit worked on what, and in which order; emulated time means nothing. A stage begins when its unit has ended what the
    log has before it, the stage before has the step ready, and, as the worker's log has to show as well, a buffer behind it is empty.
    timeline: what hexagon-timeline prints.
    """
    plan, seconds = timeline["plan"], timeline["seconds"]
    ahead = max(1, plan["buffers"])
    last = {"activations": 0.0}  # of a step of each stage
    ended: dict[tuple[str, int], float] = {}
    free: dict[str, float] = {}
    spans = []

    def duration(stage: str, step: int) -> float:
        if stage == "activations":
            return seconds["activations"]
        of = seconds["last" if (step + 1) % plan["groups"] == 0 else "full"][ORDER.index(stage) - 1]
        return of + (seconds["prepare"] if stage == "vector" and step % plan["groups"] == 0 else 0.0)

    def ready(stage: str, step: int) -> float:
        """When everything that the step waits for has ended: a pass begins when the one before is over."""
        before = step - step % plan["groups"] - 1
        at = ended.get(("out", before), 0.0) if before >= 0 else 0.0
        if stage in ("vector", "matrix", "out"):
            at = max(at, ended[ORDER[ORDER.index(stage) - 1], step], last["activations"])
        if stage in ("in", "vector", "matrix") and step - ahead > before:
            at = max(at, ended[ORDER[ORDER.index(stage) + 1], step - ahead])
        if stage == "in" and plan["buffers"] == 0 and step - 1 > before:
            at = max(at, ended["out", step - 1])
        return at

    for event in timeline["worker"]:
        stage, step = event["stage"], event["step"]
        unit = event["thread"] if stage == "vector" else UNITS[stage]
        if event["mark"] != "begin":
            continue
        begin = max(free.get(unit, 0.0), ready(stage, step))
        end = begin + duration(stage, step)
        free[unit] = end
        if stage == "activations":
            last["activations"] = end
        ended[stage, step] = max(end, ended.get((stage, step), 0.0))
        if end > begin:
            spans.append({"unit": unit, "stage": stage, "step": step, "begin": begin, "end": end})
    return spans


def sim_spans(timeline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of the simulated NPU, whose HVX threads have one track."""
    return [{"unit": UNITS[span["stage"]], **span} for span in timeline["sim"]]


@styled
def stages(timelines: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Worker and simulated NPU under one another, for each title. timelines: {title: what hexagon-timeline prints}."""
    shown = {}
    for title, timeline in timelines.items():
        shown[f"{title}: worker, by its log" if title else "worker, by its log"] = worker_spans(timeline)
        shown[f"{title}: simulated" if title else "simulated"] = sim_spans(timeline)
    units = {title: sorted({span["unit"] for span in spans}, key=_place) for title, spans in shown.items()}
    counts = [max(1, len(names)) for names in units.values()]
    figure, axes = axes_of(len(shown), 0.9 + 0.6 * len(shown) + 0.28 * sum(counts), counts, sharex=True)
    handles: dict[str, Any] = {}
    for ax, (title, spans) in zip(axes, shown.items()):
        for stage in STAGES:
            for row, unit in enumerate(units[title]):
                extents = [(1e6 * s["begin"], 1e6 * (s["end"] - s["begin"])) for s in spans if (s["unit"], s["stage"]) == (unit, stage)]
                if extents:
                    bars = ax.broken_barh(extents, (row - 0.36, 0.72), facecolors=STAGES[stage], edgecolor="white", linewidth=0.4)
                    handles.setdefault(stage, bars)
        ax.set_title(title)
        ax.set_ylim(len(units[title]) - 0.5, -0.5)
        ax.set_yticks(range(len(units[title])), units[title])
        ax.grid(axis="y", visible=False)
    axes[-1].set_xlabel("microseconds, by the prices of the NPU model")
    axes[-1].set_xlim(0, None)
    names = [name for name in ORDER if name in handles]
    figure.legend([handles[name] for name in names], names, loc="outside lower center", ncols=len(names), handlelength=1)
    return figure


def _place(unit: str) -> int:
    return ("dma", "hvx", "hvx0", "hvx1", "hvx2", "hvx3", "matrix unit").index(unit)
