"""`vitro bench --record` and `--against`: what they print."""
from dataclasses import asdict
from pathlib import Path
from typing import Optional

from ..base import fingerprints, outputs, terminal
from ..errors import ConfigError
from . import bench_record as records
from .bench import KINDS


def main(kinds: list[str], smoke: bool, rounds: int, record: Optional[Path], against: Optional[Path], measured: records.Round,
         as_json: bool) -> bool:
    """-> whether something is slower. kinds: none for those of the record to compare with, or else all. What is wrong with a file is said
    before anything is measured."""
    if record is not None:
        outputs.file(record, "--record")
    old = records.read(against) if against is not None else None
    build = records.other_build(old) if old is not None else None
    if old is not None and bool(old.get("smoke")) != smoke:
        raise ConfigError(f"--against: {against}: was recorded {'with' if old.get('smoke') else 'without'} --smoke, which measures "
                          "something else (expected the same)")
    kinds = kinds or (old["kinds"] if old is not None else list(KINDS))
    if old is not None and build is None and (missing := [kind for kind in kinds if kind not in old["kinds"]]):
        raise ConfigError(f"--against: {against}: has no rows of {', '.join(missing)} (expected {', '.join(old['kinds'])})")
    if build is not None:
        now, before = records.by_turns(kinds, rounds, measured, records.of_build(build, smoke))
    else:
        now, before = records.rounds_of(kinds, rounds, measured), old["rows"] if old is not None else {}
    if record is not None:
        records.written(record, kinds, smoke, now)
    rows = records.compared(now, before, paired=build is not None)
    slower = [row.name for row in rows if row.verdict == "slower"]
    if old is not None and not rows:
        raise ConfigError(f"--against: {against}: has no row that this build has")
    if as_json:
        terminal.print_json({"schema": "vitro.bench_rounds/1", "by_turns": build is not None, "rounds": rounds, "rows": now,
                             "compared": [asdict(row) for row in rows], "slower": slower})
        return bool(slower)
    if old is None:
        terminal.table("bench", ["name", ">median", ">least", ">most", "unit"], [_spread(name, row) for name, row in now.items()])
    else:
        terminal.table("bench", ["name", ">before", ">now", "unit", ">ratio", ">95 %", ""], [_line(row) for row in rows])
        print(_how(old, build, rounds))
        chance = sum(row.low is not None for row in rows) * (1 - records.CONFIDENCE) / 2
        print(f"slower: {', '.join(slower)} (of so many rows {chance:.0f} would be so by chance)" if slower
              else "nothing is slower, as far as these rounds can tell")
    if record is not None:
        print(f"written: {record}")
    return bool(slower)


def _spread(name, row):
    from statistics import median
    values = row["values"]
    return (name, *map(terminal.number, (median(values), min(values), max(values))), row["unit"])


def _line(row):
    interval = "" if row.low is None else f"{row.low:.3f} to {row.high:.3f}"
    return (row.name, terminal.number(row.before), terminal.number(row.now), row.unit, f"{row.ratio:.3f}", interval,
            "" if row.verdict == "as before" else row.verdict)


def _how(old, build, rounds):
    """How far a comparison goes."""
    if build is not None:
        return f"{rounds} rounds by turns with {build}; a ratio above 1 is better now."
    why = "it is of this build" if records.is_of_this_build(old) else "its extension module is gone or has changed"
    other = "" if old.get("host") == fingerprints.host() else " It was ANOTHER MACHINE."
    return (f"{rounds} rounds now beside those of the record, not by turns, since {why}: other work on the machine shows as well.{other} "
            "A ratio above 1 is better now.")
