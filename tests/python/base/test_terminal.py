"""How commands speak while one waits."""
import functools
import io
import types

import pytest
import rich.progress
from vitro.base import terminal


def test_progress_off_a_terminal_is_a_line_now_and_then_with_the_label_of_what_is_counted(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(terminal, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(terminal, "Remaining", functools.partial(terminal.Remaining, lambda: now[0]))
    with terminal.progress("words") as report:
        checking = report.of("words, checking")
        for done in (1, 2, 3):
            checking(done, 3)
            now[0] += 6
        for done in (0, 1, 2):
            report(done, 2)
            now[0] += 6
    assert capsys.readouterr().err.splitlines() == ["words, checking: 2/3, about 6 s left", "words: 0/2", "words: 1/2, about 6 s left"]


def test_on_a_terminal_another_count_begins_anew(monkeypatch):
    made = []

    class Watched(rich.progress.Progress):
        def __init__(self, *columns, **more):
            super().__init__(*columns, **more)
            made.append(self)
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(terminal.sys, "stderr", screen)
    monkeypatch.setattr(rich.progress, "Progress", Watched)
    with terminal.progress("words") as report:
        checking = report.of("words, checking")
        checking(3, 3)
        (row,) = made[0].tasks
        assert (row.description, row.finished) == ("words, checking", True)
        report(0, 3)
        assert (row.description, row.completed, row.finished) == ("words", 0, False)


HEADS, WIDEST = ["point", "workload.seed", "decode_tokens_per_s", "peak_memory_bytes", "status"], [1, 1, 5, 9, 2]


@pytest.mark.parametrize("room, lines", [(80, 1), (60, 2), (40, 3), (26, 5)])
def test_heads_of_a_table_are_folded_where_it_would_not_fit(room, lines):
    heads, padding = terminal.folded(HEADS, WIDEST, room)
    assert [head.replace("\n", "") for head in heads] == HEADS
    assert max(head.count("\n") for head in heads) + 1 == lines
    widths = [max(cell, *map(len, head.split("\n"))) for head, cell in zip(heads, WIDEST)]
    assert sum(widths) + (1 + 2 * padding) * len(widths) + 1 <= room


def test_a_table_whose_cells_do_not_fit_is_for_lines_without_a_width(monkeypatch, capsys):
    assert terminal.folded(HEADS, WIDEST, 23) is None
    monkeypatch.setattr(terminal.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "20")
    terminal.table("words", ["name", ">count"], [["a" * 30, 1234567]])
    assert "a" * 30 + "  1234567" in capsys.readouterr().out
