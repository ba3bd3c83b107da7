"""`vitro characterize --cross-fidelity`: what a device's flow models give beside their detailed twins, and the twins beside
what public simulators gave. Nothing published about the device is needed."""
from ..base import inputs, native, process, terminal
from ..errors import ConfigError
from ..execute import places
from ..execute.executor import execute_all
from ..execute.task import Task
from .characterize import PARTS, travelling

WITHIN = 0.05


def cross_fidelity(device, *, only=None, on="local", workers=None, progress=None):
    """-> {"schema", "device", "within", "rows", "reference", "without_twin"}. `only`: one of characterize.PARTS. on: as in sweep()."""
    if only is not None and only not in PARTS:
        raise ConfigError(f'--only: "{only}" is not known (expected one of: {", ".join(PARTS)})')
    places.check(on, workers)
    path = str(inputs.existing(device))
    plan = process.call("cross_fidelity_plan", path)
    cases = [(part, name) for part, name in plan["cases"] if only in (None, part)]
    asked, files = travelling(path, native.call("load_device", path), on)
    ran = execute_all([Task("cross_fidelity", (asked, part, name), files=files) for part, name in cases], on=on, workers=workers,
                      progress=progress)  # each in a process of its own: they are independent
    measured = [{"part": part, **row} for (part, _), rows in zip(cases, ran) for row in rows]
    return {"schema": "vitro.cross_fidelity/1", "device": path, "within": WITHIN,
            "rows": [_twin(row) for row in measured if not row["reference"]],
            "reference": [_reference(row) for row in measured if row["reference"]],
            "without_twin": [part for part in plan["without_twin"] if only in (None, part["part"])]}


def _twin(row):
    # A share may be nothing at all, such as what several issuing cores lose at a device with as many queues.
    error = row["other"] / row["detailed"] - 1 if row["detailed"] else row["other"]
    return {"part": row["part"], "id": row["id"], "unit": row["unit"], "flow": row["other"], "detailed": row["detailed"],
            "relative_difference": error, "ok": abs(error) <= WITHIN}


def _reference(row):
    error = row["detailed"] / row["other"] - 1
    return {"part": row["part"], "id": row["id"], "unit": row["unit"], "expected": row["other"], "simulated": row["detailed"],
            "relative_error": error, "ok": abs(error) <= WITHIN}


def show(answer):
    for title, rows, columns, error in (
            ("flow models and their detailed twins", answer["rows"], ("detailed", "flow"), "relative_difference"),
            ("detailed models and public simulators", answer["reference"], ("expected", "simulated"), "relative_error")):
        if not rows:
            continue
        terminal.table(title, ["part", "id", *(">" + column for column in columns), "unit", ">difference", "status"],
                       [(row["part"], row["id"], *(terminal.number(row[column], 4) for column in columns), row["unit"],
                         f"{row[error]:+.1%}", "ok" if row["ok"] else "off") for row in rows],
                       caption=f"{sum(row['ok'] for row in rows)} of {len(rows)} within {answer['within']:.0%}")
        print()
    for part in answer["without_twin"]:
        print(f"{part['part']}: {part['why']}")
