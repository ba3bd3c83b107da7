"""`vitro demo`: the quickstart experiment's sweep on both machines, told as one table and one page."""
import sys
from pathlib import Path

from .. import plot
from ..base import checkout, terminal
from ..report.page import METRICS, experiment_details, is_size, label_of, picture, reading, render, story_of, token_window
from ..running import experiments
from ..study.points import points
from ..trace.trace import diff_decisions, load_trace

MACHINES = ("host", "sim")
ROWS = ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "peak_memory_bytes", "flash_bytes_read.load",
        "flash_bytes_read.prefill", "flash_bytes_read.decode", "exposed_io_share", "energy_j_per_token")


def main(out, *, as_json=False):
    """Runs, checks, reports; True if every check held."""
    source = checkout.root() / "experiments" / "quickstart.yaml"
    out = Path(out)
    cases = {name_of(point): point for point in points(experiments.resolve(source)["sweep"])}
    results = {}
    with terminal.progress("demo") as report:
        jobs = [(case, machine) for case in cases for machine in MACHINES]
        for done, (case, machine) in enumerate(jobs):
            results[case, machine] = experiments.run(source, overrides=cases[case], machine=machine, out=out / f"{machine}-{slug(case)}")
            report(done + 1, len(jobs) + 1)
        first = next(iter(cases))
        again = experiments.run(source, overrides=cases[first], machine="sim")
        report(len(jobs) + 1, len(jobs) + 1)
    checks = judge(results, again, first)
    page = write_page(out, cases, results, checks)
    if as_json:
        terminal.print_json({"schema": "vitro.demo/1", "report": str(page), "checks": checks,
                             "runs": [{"case": case, **result.data} for (case, _), result in results.items()]})
    else:
        print_story(cases, results, checks, page)
    return all(check["ok"] for check in checks)


def name_of(point):
    """{engine.policy: mmap, memory.budget: 6 MiB} -> "mmap, 6 MiB"."""
    return ", ".join(str(value) for value in point.values())


def slug(case):
    return "".join(letter if letter.isalnum() else "-" for letter in case.lower()).replace("--", "-")


def judge(results, again, first):
    texts = {tuple(result.tokens) for result in results.values()}
    count = len(results[first, "sim"].tokens)
    checks = [{"ok": len(texts) == 1 and count > 0, "text": f"the same {count} tokens in all {len(results)} runs" if len(texts) == 1
               else f"{len(texts)} different token sequences in {len(results)} runs"},
              {"ok": again["event_hash"] == results[first, "sim"]["event_hash"], "text": "the simulation repeats event for event"}]
    for (case, machine), result in results.items():
        budget = result.budget_bytes
        peak = result.metric("peak_memory_bytes")
        if budget and peak is not None and peak > budget:
            checks.append({"ok": False, "text": f"{case} on {machine} went over its budget: {terminal.size(peak)}"})
    if any(result.budget_bytes for result in results.values()) and len(checks) == 2:
        checks.append({"ok": True, "text": "every run stayed within its memory budget"})
    return checks


def shown_rows(results):
    return [name for name in ROWS if any(result.metric(name) is not None for result in results.values())]


def print_story(cases, results, checks, page):
    keys = [(case, machine) for case in cases for machine in MACHINES]
    rows = [(name, [text_of(name, results[key].metric(name)) for key in keys]) for name in shown_rows(results)]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        console = Console()
        grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)  # fits 80 columns
        grid.add_column("", no_wrap=True)
        for case, machine in keys:
            color = "cyan" if machine == "host" else "yellow"
            grid.add_column(f"[bold]{case.replace(', ', chr(10))}[/]\n[{color}]{machine}[/]", justify="right", style=color)
        for name, cells in rows:
            grid.add_row(caption_of(name), *cells)
        console.print(grid)
        for check in checks:
            console.print(f"  [green]✓[/] {check['text']}" if check["ok"] else f"  [red]✗ {check['text']}[/]")
    else:
        terminal.table("", ["", *(f">{case} {machine}" for case, machine in keys)], [(caption_of(name), *cells) for name, cells in rows])
        for check in checks:
            print("ok:" if check["ok"] else "FAILED:", check["text"])
    story = story_of(next(iter(results.values())))
    text = f"  “{story['prompt']}{story['text']} …”\n" if story else ""
    print(f"\n{text}\n  host is this computer, sim the simulated phone.\n  report: {page}")


def caption_of(name):
    unit = METRICS[name][1] if name in METRICS else ""
    return label_of(name) + (f", {unit}" if unit else "")


def text_of(name, value):
    if is_size(name):
        return terminal.size(value)
    return terminal.number(value * 100 if name == "exposed_io_share" and value is not None else value)


def write_page(out, cases, results, checks):
    traces = {key: load_trace(results[key].out) for key in results}
    first, last = next(iter(cases)), list(cases)[-1]
    columns = [{"label": ""}] + [{"label": machine, "kind": machine, "number": True, "edge": machine == MACHINES[0]}
                                 for _ in cases for machine in MACHINES]
    keys = [(case, machine) for case in cases for machine in MACHINES]
    rows = [[label_of(name), *(reading(name, results[key].metric(name)) for key in keys)]
            for name in shown_rows(results)]
    table = {"title": "Side by side", "columns": columns, "rows": rows,
             "groups": [{"label": case, "span": len(MACHINES)} for case in cases],
             "text": "host is the computer that wrote this page; sim is the phone in the glass. They are different machines, so their "
                     "speeds differ by nature; the tokens and the bytes asked for do not."}
    by_case = {case: {machine: results[case, machine] for machine in MACHINES} for case in cases}
    figures = [picture("Tokens per second", plot.bars(by_case, "decode_tokens_per_s", label="decoded tokens per second"))]
    figures += trace_pictures(cases, results, traces)
    story = story_of(results[first, "sim"], "Greedy decoding of the embedded story model: the same text on both machines, with any budget.")
    assumed = dict.fromkeys(name for result in results.values() for name in result.get("assumed_parameters", []))
    return render(
        out / "report.html", kicker="vitro demo", title="One engine, a real machine and a phone in the glass",
        lede=lede(cases, results), checks=checks, cards=cards(first, last, results), tables=[table], story=story,
        figures=figures,
        provenance="Host numbers are measured with this computer's clock. Sim numbers follow from the device file's parameters, each of "
                   "which says where it comes from; nothing is fitted to a result.",
        notes=notes(results), assumed=list(assumed),
        experiments=[experiment_details(f"{case} on {machine}", result) for (case, machine), result in results.items()])


def lede(cases, results):
    first, last = list(cases)[0], list(cases)[-1]
    fast, slow = (results[case, "sim"].metric("decode_tokens_per_s") for case in (first, last))
    flash = results[last, "sim"].metric("flash_bytes_read.decode")
    count = len(results[last, "sim"].tokens)
    text = ("The same compiled inference engine ran here twice over: on this computer's threads and storage, and on a SystemC model of a "
            "phone. ")
    if fast and slow:
        text += f"With its weights in DRAM the simulated phone decodes {terminal.number(fast)} tokens per second; "
        text += f"{described(cases[last])} it decodes {terminal.number(slow)}"
        text += f", fetching {terminal.size(flash / count)} from flash for every token." if flash and count else "."
    return text


def described(point):
    return f"with {name_of(point)}"


def cards(first, last, results):
    found = []
    for case in (first, last):
        for machine in MACHINES:
            speed, start = (results[case, machine].metric(name) for name in ("decode_tokens_per_s", "ttft_ms"))
            found.append({"kind": machine, "label": f"{case} on {machine}", "value": terminal.number(speed), "unit": "tokens/s",
                          "note": f"first token after {terminal.number(start)} ms" if start is not None else ""})
    return found


def trace_pictures(cases, results, traces):
    first, last = list(cases)[0], list(cases)[-1]
    windows = {}
    shown = {}
    for case in dict.fromkeys((first, last)):
        title = f"{case} on sim"
        shown[title] = traces[case, "sim"]
        windows[title] = token_window(shown[title], results[case, "sim"])
    edges = {bound: {title: window[bound] for title, window in windows.items()} for bound in ("begin_us", "end_us")}
    figures = [picture("One token, operation by operation", plot.gantt(shown, **edges),
                       "Every bar is one operation on one core, or one request on the flash."),
               picture("The whole run", plot.activity(shown), "How busy each core and the flash were, from the prompt to the last token.")]
    both = {f"{last} on {machine}": traces[last, machine] for machine in MACHINES}
    windows = {f"{last} on {machine}": token_window(traces[last, machine], results[last, machine]) for machine in MACHINES}
    edges = {bound: {title: window[bound] for title, window in windows.items()} for bound in ("begin_us", "end_us")}
    figures.append(picture("The same token on both machines", plot.gantt(both, **edges),
                           "One policy, two clocks: real threads above, simulated ones below. " + decisions_text(last, results)))
    figures.append(picture("Where the DRAM went", plot.regions({case: results[case, "sim"] for case in cases}),
                           "The peak of each region, and the budget of everything as a line."))
    memory = plot.memory(traces[last, "sim"], budget_bytes=results[last, "sim"].budget_bytes)
    bandwidth = plot.bandwidth(traces[last, "sim"])
    figures += [picture("Memory over time", memory, f"{last} on sim, by region.")] if memory else []
    figures += [picture("Bandwidth over time", bandwidth, f"{last} on sim.")] if bandwidth else []
    return figures


def decisions_text(case, results):
    compared = diff_decisions(results[case, "host"].out, results[case, "sim"].out)
    count = compared["count"][0]
    return f"All {count} decisions in their logs are equal." if compared["equal"] else "Their decision logs differ: see `vitro trace diff`."


def notes(results):
    found = [note for result in results.values() for note in result.get("notes", [])]
    return list(dict.fromkeys(found))
