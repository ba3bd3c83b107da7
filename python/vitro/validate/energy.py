"""Energy of a real run, from what its system showed of the battery while it went on (python/vitro/validate/sample.sh takes the samples).

All times are in seconds of the sampler's clock (/proc/uptime), power in watts, energy in joules.
"""
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

METRICS = ("energy_j_per_token", "prefill_energy_j_per_token", "mean_power_w")
_HOUR = 3600.0
_MOST_SLACK = 0.1  # of a window, before a note says so
# No phone that computes draws less than so much, in the unit that Linux asks for; a smaller number is in thousandths of it.
_LEAST = {"current_now": 20_000, "voltage_now": 100_000, "power_now": 50_000, "charge_counter": 50_000, "charge_now": 50_000}
_UNITS = {"current_now": "uA", "voltage_now": "uV", "power_now": "uW", "charge_counter": "uAh", "charge_now": "uAh"}


@dataclass(frozen=True)
class Samples:
    """header: what the sampler had and missed. rows: {"t", "battery": {...}, ...} by time. began, ended: of the process that ran."""

    header: dict[str, Any]
    rows: list[dict[str, Any]]
    began: float
    ended: float


@dataclass
class Energy:
    """metrics: as those of a result, null where nothing gives them. about: rate, source, sign, units and the like. notes: what lacks."""

    metrics: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(METRICS))
    about: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read(folder: Path) -> Samples | None:
    """The samples beside a result; None where there are none. Lines that are cut or no JSON are left out."""
    try:
        lines = (folder / "samples.jsonl").read_text(errors="replace").splitlines()
        when = json.loads((folder / "when.json").read_text())
        began, ended = float(when["began_s"]), float(when["ended_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = [row for line in lines if isinstance(row := _parsed(line), dict)]
    header = next((row for row in found if "vitro_samples" in row), {})
    rows = [row for row in found if isinstance(row.get("t"), (int, float)) and isinstance(row.get("battery"), dict)]
    return Samples(header, sorted(rows, key=lambda row: row["t"]), began, ended)


def measured(result: Mapping[str, Any], samples: Samples | None, *, cells: int = 1) -> Energy:
    """Energy of the decoding, or else the prompt, of one run. result: result.json. cells: in series, of which the system shows the voltage
    of one."""
    energy = Energy()
    if samples is None or not samples.rows:
        energy.notes.append("energy was not measured: there are no samples beside the result")
        return energy
    span = samples.rows[-1]["t"] - samples.rows[0]["t"]
    energy.about = {"rate_hz": round((len(samples.rows) - 1) / span, 3) if span > 0 else None, "samples": len(samples.rows),
                    "battery": samples.header.get("battery", ""), "missing": samples.header.get("missing", []), "cells": cells}
    if reason := _unusable(samples.rows) or _several_requests(result):
        energy.notes.append(f"energy was not measured: {reason}")
        return energy
    power = _power(samples.rows, cells, energy)
    windows = _windows(result, samples, energy)
    if power is None or windows is None:
        return energy
    prompt, decode = windows
    tokens = sum(_counted(result))
    window, per, name = (decode, tokens, METRICS[0]) if tokens else (prompt, _prompt_tokens(result), METRICS[1])
    joules = integral(power, *window)
    if joules is None:
        energy.notes.append("energy was not measured: the samples do not cover the run")
        return energy
    energy.metrics[name] = joules / per if per else None
    energy.metrics["mean_power_w"] = joules / (window[1] - window[0])
    inside = [watts for t, watts in power if window[0] <= t <= window[1]]
    changes = sum(a != b for a, b in zip(inside, inside[1:]))
    energy.about |= {"energy_j": joules, "window_s": window[1] - window[0], "changes": changes,
                     "charge_j": _by_charge(samples, window, cells)}
    if (slack := energy.about["slack_s"]) > _MOST_SLACK * (window[1] - window[0]):
        energy.notes.append(f"energy: the window of {window[1] - window[0]:.2f} s may lie up to {slack:.2f} s off (expected a longer run)")
    if changes < 3:
        energy.notes.append(f"energy: the battery's readings changed {changes} times in the {window[1] - window[0]:.2f} s of the window, "
                            "so its joules are rough (expected a longer run)")
    return energy


def integral(power: Sequence[tuple[float, float]], begin: float, end: float) -> float | None:
    """Joules between two times, of (time, watts) that are joined by lines. None where the samples do not reach both."""
    if not power or power[0][0] > begin or power[-1][0] < end or end <= begin:
        return None

    def at(time: float) -> float:
        for (t0, w0), (t1, w1) in zip(power, power[1:]):
            if t0 <= time <= t1:
                return w0 if t1 == t0 else w0 + (w1 - w0) * (time - t0) / (t1 - t0)
        return power[-1][1]

    points = [(begin, at(begin)), *((t, w) for t, w in power if begin < t < end), (end, at(end))]
    return sum((t1 - t0) * (w0 + w1) / 2 for (t0, w0), (t1, w1) in zip(points, points[1:]))


# Of table(), behind the experiment; then come source and sign.
COLUMNS = ("J/token", "sim", "W", "sim W", "off", "J of a run", "s", "samples/s")


def table(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(id, values of COLUMNS, source, sign) of each row of a validation whose energy was measured."""
    found: list[tuple[Any, ...]] = []
    for row in rows:
        about = next((about for about in row.get("energy_runs", ()) if "energy_j" in about), None)
        if about is None:
            continue
        name = METRICS[0] if row["host"][METRICS[0]] is not None else METRICS[1]
        found.append((row["id"], *(row[side][key] for key in (name, METRICS[2]) for side in ("host", "sim")), row["relative_error"][name],
                      about["energy_j"], about["window_s"], about["rate_hz"], about["source"], about["sign"]))
    return found


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _unusable(rows: list[dict[str, Any]]) -> str:
    """Why the battery's current is not what the phone draws; empty where it is."""
    plugged = next((row["battery"]["online"] for row in rows if "online" in row["battery"]), None)
    if plugged is not None:
        return f"a charger was plugged in ({plugged})"
    other = next((row["battery"]["status"] for row in rows if row["battery"].get("status", "Discharging") != "Discharging"), None)
    return f"the battery's status was {other} (expected Discharging)" if other is not None else ""


def _several_requests(result: Mapping[str, Any]) -> str:
    """Why the result does not say when what its metrics are of ran; empty where it does."""
    requests = result.get("requests") or []
    return f"the run served {len(requests)} requests, and metrics are of the last (expected one)" if requests else ""


def _power(rows: list[dict[str, Any]], cells: int, energy: Energy) -> list[tuple[float, float]] | None:
    """-> (time, watts drawn), by power_now or by current and voltage."""
    direct = _values(rows, "power_now", energy)
    current, voltage = _values(rows, "current_now", energy), _values(rows, "voltage_now", energy)
    drawn = [(t, amperes * voltage[t] * cells) for t, amperes in current.items() if t in voltage]
    if drawn:
        energy.about["source"] = "current_now x voltage_now"
    elif direct:
        energy.about["source"] = "power_now"
        drawn = list(direct.items())
    else:
        lacks = [name for name, found in (("current_now", current), ("voltage_now", voltage), ("power_now", direct)) if not found]
        energy.notes.append(f"energy was not measured: the system does not show {', '.join(lacks)}"
                            + (", and current and voltage never at once" if current and voltage else ""))
        return None
    # Linux asks for a negative current out of the battery, and vendors differ: a battery that discharges decides.
    sign = -1 if statistics.median(watts for _, watts in drawn) < 0 else 1
    energy.about["sign"] = "negative out of the battery" if sign < 0 else "positive out of the battery"
    if not any("status" in row["battery"] for row in rows):
        energy.notes.append("energy: the battery's status is not shown; it is assumed to discharge")
    return [(t, sign * watts) for t, watts in drawn]


def _values(rows: list[dict[str, Any]], name: str, energy: Energy) -> dict[float, float]:
    """{time: value in A, V, W or Ah} of one file. A whole series that is too small for its unit is in thousandths of it."""
    found = {row["t"]: row["battery"][name] for row in rows if isinstance(row["battery"].get(name), (int, float))}
    if not found or not any(found.values()):
        return {}
    thousandths = statistics.median(abs(value) for value in found.values()) < _LEAST[name]
    energy.about.setdefault("units", {})[name] = _UNITS[name].replace("u", "m", 1) if thousandths else _UNITS[name]
    return {t: value * (1e-3 if thousandths else 1e-6) for t, value in found.items()}


def _windows(result: Mapping[str, Any], samples: Samples, energy: Energy) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """-> ((begin, end) of the prompt, of the decoding). The two clocks meet where the process ends: the engine's last look at the machine
    is its last act. `slack_s` is what the process took before its first and after its last look, the most that this can be off."""
    metrics, looks = result.get("metrics") or {}, (result.get("machine_state") or {}).get("samples") or []
    steps = [ms / 1e3 for ms in (result.get("steps") or {}).get("latency_ms") or []]
    if not looks or metrics.get("load_ms") is None or metrics.get("ttft_ms") is None:
        energy.notes.append("energy was not measured: the result does not say when it was in which phase")
        return None
    length = looks[-1]["at_s"]
    start = samples.ended - length + metrics["load_ms"] / 1e3
    first = start + metrics["ttft_ms"] / 1e3
    energy.about["slack_s"] = max(0.0, samples.ended - samples.began - length)
    warmed = _warmup(result, len(steps))
    return (start, first), (first + sum(steps[:warmed]), first + sum(steps))


def _warmup(result: Mapping[str, Any], steps: int) -> int:
    """How many first steps do not count."""
    workload = (result.get("experiment_resolved") or {}).get("workload") or {}
    warmed = int(workload.get("warmup_tokens") or 0)
    return warmed if warmed < steps else 0


def _counted(result: Mapping[str, Any]) -> list[int]:
    """The tokens of each step that counts."""
    sequences = (result.get("steps") or {}).get("sequences") or []
    return sequences[_warmup(result, len(sequences)):]


def _prompt_tokens(result: Mapping[str, Any]) -> float:
    metrics = result["metrics"]
    return (metrics.get("prefill_tokens_per_s") or 0) * metrics["ttft_ms"] / 1e3


def _by_charge(samples: Samples, window: tuple[float, float], cells: int) -> float | None:
    """Joules by the battery's counter of charge and its mean voltage: another way, coarse. None without one."""
    inside = [row for row in samples.rows if window[0] <= row["t"] <= window[1]]
    scratch = Energy()
    voltage = _values(inside, "voltage_now", scratch)
    for name in ("charge_counter", "charge_now"):
        charge = list(_values(inside, name, scratch).values())
        if len(charge) > 1 and voltage and charge[0] != charge[-1]:
            return abs(charge[0] - charge[-1]) * _HOUR * statistics.fmean(voltage.values()) * cells
    return None
