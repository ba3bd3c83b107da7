"""Answers of `vitro reproduce` for reading: on a terminal, and as the tables of a page of docs/."""
import textwrap
from pathlib import Path

from ..base import terminal
from ..base.figures import figure_text
from ..base.whole_files import in_place
from ..errors import ConfigError
from .paper_map import KINDS, READINGS

BEGIN, END = "<!-- rows: vitro reproduce --paper {paper}{reading} --diagnose --table THIS_FILE -->", "<!-- end of rows -->"
_VERDICTS = {True: "holds", False: "does not hold", None: "not modelled"}


def parts_of(rows):
    """[(title, rows)]: what is scored, what follows from its own input, what the paper says twice and differently, outcomes beside the
    results, what is known by name."""
    results = [row for row in rows if row["kind"] in KINDS]
    return [(title, part) for title, part in (
        ("published and simulated", [row for row in results if row["status"] in ("ok", "off", "not modelled")]),
        ("not scored: consistent, since the value is also an input or can not differ",
         [row for row in results if row["status"] == "consistent"]),
        ("not scored: the paper disagrees with itself", [row for row in results if row["status"] == "contradictory"]),
        ("not scored: what the workload comes to under a policy", [row for row in rows if row["kind"] not in KINDS]),
        ("not scored: known by name alone", [row for row in results if row["status"] == "reserved"])) if part]


def summary_text(answer):
    """Predictions that are ok, explained and unexplained; what is not scored; checks that hold."""
    summary, said = answer["summary"], []
    if summary["scored"]:
        off = ", ".join(f"{summary[f'off_{kind}']} {kind}" for kind in ("explained", "unexplained") if summary[f"off_{kind}"])
        others = [f"{summary['off']} off{f' ({off})' if off and not summary['off_untried'] else ''}"] if summary["off"] else []
        others += [f"{summary['not modelled']} not modelled"] if summary["not modelled"] else []
        said.append(f"{summary['ok']} of {summary['scored']} predictions are ok ({summary['ok_share']:.0%})"
                    + "".join(f", {text}" for text in others) + ".")
    if unscored := [f"{summary[status]} {status}" for status in ("consistent", "contradictory", "reserved") if summary[status]]:
        said.append(f"Not scored: {', '.join(unscored)}.")
    if summary["checks"]:
        said.append(f"{summary['checks_held']} of {summary['checks']} orderings and signs hold.")
    return " ".join(said)


def show(answer):
    """Tables narrow enough for a terminal; reasons follow them, each once with all rows that it is the reason of."""
    for title, rows in parts_of(answer["rows"]):
        terminal.table(f"{answer['paper']}: {title}", ["id", ">published", ">simulated", "unit", ">error", "status"],
                       [(row["id"], figure_text(row), _simulated(row), row["unit"], _error(row), row["status"]) for row in rows])
        print()
    if answer["checks"]:
        terminal.table("orderings and signs", ["id", "verdict", "statement"],
                       [(check["id"], _VERDICTS[check["holds"]], check["statement"]) for check in answer["checks"]])
        print()
    for text, names in _by_reason(answer).items():
        print(textwrap.fill(f"{text}: {', '.join(names)}", 110, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                            break_on_hyphens=False))
    print(textwrap.fill(summary_text(answer), 110))


def _by_reason(answer):
    """{reason: names}. A diagnosis that was run says what came of it and stands alone."""
    reasons = {}
    for row in answer["rows"]:
        if row["status"] in ("off", "not modelled") and row["why"]:
            reasons.setdefault(f"{row['status']}, {diagnosis_text(row)}" if "diagnosis" in row else f"{row['status']}, {row['why']}",
                               []).append(row["id"])
    for check in answer["checks"]:
        if check["why"] and check["holds"] is not True:
            reasons.setdefault(check["why"], []).append(check["id"])
    return reasons


def diagnosis_text(row):
    """`explained: 2.9 with one read in flight`, of a diagnosis that was run; unexplained where that is not within the tolerance either."""
    found = row["diagnosis"]
    verdict = "explained" if found["ok"] else "unexplained"
    return f"{verdict}: {found['why'] or terminal.number(found['simulated'])} {found['shows']}"


def _simulated(row):
    text = terminal.number(row["simulated"])
    return f"{text} ({terminal.number(row['low'])} to {terminal.number(row['high'])})" if "low" in row else text


def _error(row):
    return "" if row["relative_error"] is None else f"{row['relative_error']:+.0%}"


# ---- a page

def tables(answer):
    """Markdown: a row for every id of the map, whatever its status."""
    lines = [textwrap.fill(summary_text(answer), 138)]
    for title, rows in parts_of(answer["rows"]):
        lines += ["", f"*{title[0].upper()}{title[1:]}*", "",
                  *_markdown(["result", "published", "simulated", "", "note"],
                             [(f"`{row['id']}`", f"{figure_text(row)} {row['unit']}" if row["expected"] is not None else "",
                               f"{_simulated(row)} {row['unit']}", row["status"], _note(row)) for row in rows])]
    if answer["checks"]:
        lines += ["", "*Orderings and signs*", "",
                  *_markdown(["check", "statement", ""], [(f"`{check['id']}`", f"`{check['statement']}`", _VERDICTS[check["holds"]])
                                                          for check in answer["checks"]])]
    return "\n".join(lines)


def _note(row):
    if "diagnosis" in row:
        said = [diagnosis_text(row)]
    elif row["status"] == "off" and not row["diagnosed"]:
        said = ["unexplained"]
    else:
        said = [row["why"]] * (row["status"] in ("not modelled", "consistent"))
    return "; ".join(said + [_range(ends) + f" {told}" for told, ends in row.get("beside", {}).items() if ends])


def _range(ends):
    low, high = (terminal.number(ends[end]) for end in ("low", "high"))
    return low if low == high else f"{low} to {high}"


def _markdown(columns, rows):
    kept = [i for i, name in enumerate(columns) if i < 3 or any(row[i] for row in rows)]
    return [f"| {' | '.join(columns[i] for i in kept)} |", "|" + "---|" * len(kept),
            *(f"| {' | '.join(row[i].replace('|', '/') for i in kept)} |" for row in rows)]


def mark(paper, reading=READINGS[0]):
    """The line before the tables of a reading; the first reading has no name there."""
    return BEGIN.format(paper=paper, reading="" if reading == READINGS[0] else f" --reading {reading}")


def check_page(paper, path, reading=READINGS[0]):
    """-> the page's text before, between and after its marks. Throws ConfigError when it has none: better before the runs than after."""
    begin = mark(paper, reading)
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"--table: {path}: {error.strerror}") from None
    before, first, rest = text.partition(begin)
    between, last, after = rest.partition(END)
    if not first or not last:
        raise ConfigError(f'--table: {path} has no markers for the table (expected a line "{begin}" and a line "{END}")')
    return before, between, after


def write_tables(answer, path):
    """Puts the tables between the marks of a page."""
    before, _, after = check_page(answer["paper"], path, answer["reading"])
    with in_place(Path(path)) as unfinished:
        unfinished.write_text(f"{before}{mark(answer['paper'], answer['reading'])}\n{tables(answer)}\n{END}{after}")
