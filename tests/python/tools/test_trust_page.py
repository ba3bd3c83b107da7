"""The page that says how far to trust results repeats what other pages measured."""
import math
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


def test_deviations_from_other_simulators_are_those_of_their_page():
    dram, flash = (ROOT / "docs/results/peers.md").read_text().split("\n## DRAM\n")[1].split("\n## Flash\n")
    reads, writes = (_faster(part) for part in flash.split("\n### Writes\n"))
    totals = re.findall(r"^\|[^|]+\| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| [\d.]+ \|$", dram, re.MULTILINE)
    worst = max(abs(float(ours) / float(theirs) - 1) for theirs, ours in totals)
    near = sum(abs(percent) <= 10 for percent in reads.values())
    in_turn = [abs(percent) for pattern, percent in writes.items() if "sequential" in pattern]
    elsewhere = [percent for pattern, percent in writes.items() if "sequential" not in pattern]
    assert min(reads.values()) > -10 and 0 < near < len(reads)  # those beyond are all too fast
    assert in_turn and min(elsewhere) > 0
    cell = next(line for line in PAGE.splitlines() if line.startswith("| GB/s")).split("|")[2]
    assert cell.strip() == (f"total rate of DRAM within {100 * worst:.0f} % of Ramulator 2.1 in all {len(totals)} rows; "
                            f"reads of flash within 10 % of MQSim in {near} of {len(reads)} rows, "
                            f"up to {math.ceil(max(reads.values()))} % too fast in the others, where commands overtake data; "
                            f"sequential writes within {math.ceil(max(in_turn))} %, "
                            f"random ones up to {math.ceil(max(elsewhere))} % too fast, where an address names its die")


def _faster(section):
    """By pattern: by how many percent we are faster, as a table of the page has it."""
    rows = re.findall(r"^\| ([^|]+) \|[^|]+\|[^|]+\| ([+-][\d.]+) % \|", section, re.MULTILINE)
    found = {pattern: float(percent) for pattern, percent in rows}
    assert len(found) == len(rows)
    return found
