"""The page that says how far to trust results repeats what other pages measured."""
import re

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs/results/trust.md").read_text()


@pytest.mark.parametrize("paper", ["pi2", "tman", "tts", "mnn", "npumoe"])
def test_counts_of_predictions_are_those_of_the_papers_page(paper):
    own = " ".join((ROOT / f"docs/results/reproduce-{paper}.md").read_text().split())
    found = re.search(r"(\d+ of \d+) predictions are ok .*?off(?: \((\d+) explained)?.*?(\d+ of \d+) orderings", own)
    row = next(line for line in PAGE.splitlines() if line.startswith("|") and f"reproduce-{paper}.md)" in line and "predictions" not in line
               and " of " in line)
    assert [cell.strip() for cell in row.split("|")[2:5]] == [found[1], found[2] or "0", found[3]]


def test_errors_on_a_real_machine_are_those_of_its_page():
    page = (ROOT / "docs/guide/validate.md").read_text()
    for value in ("209 of 209", "12.0 %", "7.2 %", "22 %"):
        assert value in page and value in PAGE
