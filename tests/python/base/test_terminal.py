"""How commands speak while one waits."""
import functools
import types

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
