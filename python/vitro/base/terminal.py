"""How commands speak: progress bars and tables on a terminal, plain lines elsewhere, JSON alone when asked."""
import json
import os
import sys
import textwrap
import time
from contextlib import contextmanager

from . import checkout
from .remaining import Remaining


def print_json(value):
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def speak_anyhow():
    """A stream that the caller has closed is an empty one, and signs that an output's encoding lacks are written out."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    if hasattr(sys.stdout, "reconfigure"):  # a test's stand-in has no encoding
        sys.stdout.reconfigure(errors="backslashreplace")


def printable(text):
    """What files of strangers hold may stand in a message, but not steer the terminal: control characters but for line ends are written
    out."""
    return "".join(char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text)


def say(text):
    """A line for the person who waits; stdout stays free for answers."""
    print(text, file=sys.stderr, flush=True)


class Report:
    """Takes (done, total). show: what tells them, with a label; the label may change as one kind of work follows another."""

    def __init__(self, label, show):
        self._label, self._show, self._left = label, show, Remaining()

    def __call__(self, done, total):
        self._show(self._label, done, total, self._left.text(done, total))

    def of(self, label):
        """The same place, for other work beside it that has a count of its own."""
        return Report(label, self._show)


@contextmanager
def progress(label):
    """Yields a Report: a bar on a terminal, otherwise a line at most every five seconds, with the time that remains."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[left]}"))
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=None, left="")

            def row(name, done, total, left):
                if bar.tasks[0].description != name:  # a count that is through stays so for rich, whatever is counted next
                    bar.reset(task, description=name)
                bar.update(task, completed=done, total=total, left=left)
            yield Report(label, row)
        return
    spoken = time.monotonic()

    def line(name, done, total, left):
        nonlocal spoken
        if time.monotonic() - spoken > 5 and done < total:
            spoken = time.monotonic()
            say(", ".join(filter(None, [f"{name}: {done}/{total}", left])))
    yield Report(label, line)


def folded(heads, widest, room):
    """-> heads in as few lines as let a table fit, and the blanks beside each cell; None where its cells alone do not. widest: of the
    cells of each column. room: columns of the terminal. A head of six letters stays whole where there is room for it."""
    for padding, whole in ((1, 6), (0, 6), (0, 1)):
        for lines in range(1, 8):
            widths = [max(cell, min(len(head), whole), -(-len(head) // lines)) for head, cell in zip(heads, widest)]
            if sum(widths) + (1 + 2 * padding) * len(heads) + 1 <= room:
                return ["\n".join(textwrap.wrap(head, max(width, 1))) for head, width in zip(heads, widths)], padding
    return None


def table(title, columns, rows, *, caption=None):
    """columns: names, with a leading ">" for right-aligned ones. rows: lists of texts."""
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        console = Console()
        widest = [max((len(part) for row in rows for part in ([str(row[index])] if name.startswith(">") else str(row[index]).split())),
                      default=0) for index, name in enumerate(columns)]  # of numbers, and of the words of texts, which are wrapped
        if fits := folded([name.lstrip(">") for name in columns], widest, console.width):
            heads, padding = fits
            grid = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, padding), title_style="bold", caption_style="dim",
                         title_justify="left", caption_justify="left")
            for name, head in zip(columns, heads):
                number = name.startswith(">")
                grid.add_column(head, justify="right" if number else "left", no_wrap=number, overflow="fold")
            for row in rows:
                grid.add_row(*map(str, row))
            console.print(grid)
            return
    cells = [[name.lstrip(">") for name in columns], *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) if name.startswith(">") else cell.ljust(width)
                       for cell, width, name in zip(row, widths, columns)).rstrip() for row in cells]
    print("\n".join(filter(None, [title, *lines, caption])))


def named_list(title, rows, as_json):
    """What there is of a kind: rows with a name and a description; of what is a file, its path from here."""
    if as_json:
        return print_json({"rows": rows})
    if not rows:
        return print(f"{title}: none")
    files = [checkout.called_here(row["path"]) if "path" in row else "" for row in rows]
    table(title, ["name", "description", *(["file"] if any(files) else [])],
          [(row["name"], row.get("description", ""), *([file] if any(files) else [])) for row, file in zip(rows, files)])


def number(value, digits=3):
    """Three significant digits for reading; a missing value is a dash, never 0."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if value == 0 or isinstance(value, int):
        return f"{value:,.0f}"
    if abs(value) >= 10 ** digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-3 else f"{value:.{digits - 1}e}"


def size(count):
    """Bytes with a binary unit."""
    if count is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024
