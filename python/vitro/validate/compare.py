"""`vitro validate`: the same experiments for real and in simulation, and how far the two are apart (docs/guide/validate.md).

The simulator repeats itself to the last digit, so it runs once; the machine runs several times, in rounds over the whole
suite, so that a drift hits all experiments alike.
"""
import json
import os
import statistics
from pathlib import Path

from ..base import inputs, native, outputs, quantities
from ..base.metric_units import with_present_names
from ..base.schemas import checked
from ..base.trees import flatten, nested
from ..calibrate import measure
from ..errors import ConfigError
from ..execute import places
from ..running import band as bands
from ..running import experiments
from ..running.result import load_result
from ..trace.trace import diff_decisions
from . import energy

METRICS = ("decode_tokens_per_s", "prefill_tokens_per_s", "token_latency_ms.p50", "token_latency_ms.p90", "token_latency_ms.p99",
           "flash_bytes_read.prefill", "flash_bytes_read.decode", *energy.METRICS)
SHARES = ("exposed_io_share", "cache_hit_rate")  # compared by difference: either may be 0
NOISE_LIMIT = 0.10  # host against host: above it the machine was too noisy to conclude anything
APART = 0.10        # pairs that differ by more on host have to be ordered alike


def validate(suite, device, *, runs=5, out=None, host_results=None, calibration=None, keep_device=None,
             with_band=True, cells=1, on="local", progress=None):
    """-> {"schema", "suite", "rows", "summary"}. device: a path or a tree. out: a folder for traces and results.
    host_results: a folder of results from elsewhere (`vitro bundle`), or of an earlier validation, in place of runs on this machine.
    calibration: a Calibration in place of the device; its passes stand between the rounds of real runs, so that both see the machine in
    the same states; the device file goes to keep_device. cells: of a battery, as in energy.measured(). on: where the
    simulations of the band run, as in sweep(); the one whose decisions are compared leaves a trace and runs here, as real runs do."""
    places.check(on)
    out = outputs.folder(out, "out") if out else None
    tree = None if calibration else device if isinstance(device, dict) else native.call("load_device", inputs.existing(device))
    given = read_host_results(host_results) if host_results else None
    kept = read_kept(host_results) if host_results else {}
    known = None if given is None else {*given, *kept}
    if known is not None and not any(case.id in known for case in suite.cases):
        raise ConfigError(f"--host-results: {host_results}: has no result of this suite (expected results of {suite.cases[0].id} and "
                          "its like)")
    cases = [case for case in suite.cases if known is None or case.id in known]
    runners = [_Runner(case, out, None if known is None else given.get(case.id, []), kept.get(case.id), cells) for case in cases]
    rounds = 0 if known is not None else 1 + runs

    def whole(turn, work):
        for done, runner in enumerate(runners):
            work(runner)
            if progress:
                progress(turn * len(runners) + done + 1, (rounds + 1) * len(runners))

    for turn in range(rounds):
        if calibration and turn > 0:
            calibration.one_pass()
        whole(turn, lambda runner: runner.run(counts=turn > 0))
    if calibration:
        tree = calibration.device()
    if calibration and keep_device:
        measure.write(tree, keep_device)
    elsewhere = with_band and on != "local"
    whole(rounds, lambda runner: runner.simulate(tree, with_band and not elsewhere))
    if elsewhere:
        _simulate_corners(runners, tree, on)
    rows = [runner.row() for runner in runners]
    return {"schema": "vitro.validate/1", "suite": suite.name, "device": tree.get("name"),
            "calibration": {key: (tree.get("calibration") or {}).get(key) for key in ("date", "cpu", "kernel", "quick")},
            "rows": rows, "summary": summary(rows, suite)}


def _simulate_corners(runners, tree, on):
    wanted = [(runner, sign) for runner in runners for sign in (1, -1)]
    moved = {sign: bands.corner(tree, sign) for sign in (1, -1)}
    names = [f"{runner.case.id} on sim with {'slower' if sign > 0 else 'faster'} parameters" for runner, sign in wanted]
    found = experiments.run_all([(runner.composed("sim", moved[sign]), None) for runner, sign in wanted], names=names, on=on)
    for (runner, sign), result in zip(wanted, found):
        runner.corners[sign] = result.metrics


class _Runner:
    """given: results of real runs from elsewhere; kept: the row of an earlier validation, whose real runs count again."""

    def __init__(self, case, out, given=None, kept=None, cells=1):
        self.case, self.out = case, out
        self.host = [run for run in given or [] if run.out.name != "traced"] if kept is None else []
        self.given, self.kept = given, kept
        self.sim, self.corners = None, {}
        self.energies = [energy.measured(run, energy.read(run.out), cells=cells) for run in self.host] if given else []

    def run(self, *, counts):
        """For real. The first run has a trace: it warms caches and does not count."""
        if counts:
            self.host += self._run([("host", None, None)])
        else:
            self._run([("host", None, self._folder("host"))])

    def simulate(self, device, with_band):
        signs = (1, -1) if with_band else ()
        devices = [bands.corner(device, sign) for sign in signs]
        self.sim, *corners = self._run([("sim", device, self._folder("sim")), *(("sim", moved, None) for moved in devices)])
        self.corners = {sign: corner.metrics for sign, corner in zip(signs, corners)}

    def _run(self, wanted):
        """wanted: [(machine, device, folder)], of one machine. -> [Result]"""
        runs = [(self.composed(machine, device), folder) for machine, device, folder in wanted]
        return experiments.run_all(runs, names=[f"{self.case.id} on {machine}" for machine, *_ in wanted])

    def composed(self, machine, device):
        experiment = self.case.experiment | ({"device": device} if device else {})
        return experiments.compose(experiment, overrides=self.case.overrides, machine=machine)

    def _folder(self, machine):
        import tempfile
        if self.out is None:
            self._kept = getattr(self, "_kept", None) or tempfile.TemporaryDirectory()
            return Path(self._kept.name) / machine
        return self.out / self.case.id / machine

    def row(self):
        runs = [with_present_names(flatten(run.metrics)) for run in self.host]
        for run, found in zip(runs, self.energies):
            run |= {name: value for name, value in found.metrics.items() if value is not None}
        if self.kept is not None:
            runs = [with_present_names(flatten(self.kept["host"]))]
        speeds = self.kept["host_runs"] if self.kept is not None else [run.get("decode_tokens_per_s") for run in runs]
        host = {name: _median([run.get(name) for run in runs]) for name in (*METRICS, *SHARES)}
        sim = {name: flatten(self.sim.metrics).get(name) for name in (*METRICS, *SHARES)}
        answer = {"id": self.case.id, "host": nested(host), "sim": nested(sim),
                  "relative_error": nested({name: _relative(sim[name], host[name]) for name in METRICS}),
                  "difference": {name: None if None in (sim[name], host[name]) else sim[name] - host[name] for name in SHARES},
                  "host_runs": speeds, "group": list(self.case.group()), "host_against_host": noise(speeds),
                  "tokens_equal": self._tokens_equal(),
                  "bytes_equal": all(sim[name] == run.get(name) for run in runs for name in METRICS if "bytes" in name),
                  "decisions": self._decisions(),
                  "notes": [note for note in self.sim.get("notes", []) if "calibration" in note] + throttled(self.host)
                  + list(dict.fromkeys(note for found in self.energies for note in found.notes)),
                  "energy_runs": [found.about for found in self.energies]}
        if self.corners:
            answer["band"] = bands.band(self.sim.metrics, self.corners[1], self.corners[-1])
        if self.out:
            folders = {"host": self._folder("host"), "sim": self._folder("sim")}
            if self.given:
                folders["host"] = next((run.out for run in self.given if (run.out / "trace.json").exists()), folders["host"])
            answer["traces"] = {machine: os.path.relpath(folder / "trace.json", self.out) for machine, folder in folders.items()
                                if (folder / "trace.json").exists()}
        return answer

    def _tokens_equal(self):
        runs = self.host or self.given or []
        if not runs and self.kept is not None:
            return self.kept["tokens_equal"]  # what is decided and generated does not depend on the device
        return all(run.get(name) == self.sim.get(name) for run in runs for name in ("tokens", "sequences"))

    def _decisions(self):
        folders = [run.out for run in self.given] if self.given is not None else [self._folder("host")]
        host = next((folder for folder in folders if (folder / "decisions.jsonl").exists()), None)
        if host is None:
            return None
        found = diff_decisions(host, self._folder("sim"), limit=1)
        return {"equal": found["equal"], "count": found["count"], "first": found["hunks"][:1]}


def read_host_results(folder):
    """-> {id: [Result]} of DIR/<any>/<any>/result.json, by the experiment that each names. A folder "traced" holds a run that
    does not count, and its decisions."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"--host-results: {folder} is not a folder")
    found = {}
    for path in sorted(folder.glob("*/**/result.json")):
        result = load_result(path)
        if result.machine == "host":
            found.setdefault(result.get("experiment"), []).append(result)
    return found


def read_kept(folder):
    """-> {id: row} of an earlier validation in that folder, if there is one."""
    path = Path(folder) / "validate.json"
    if not path.is_file():
        return {}
    try:
        return {row["id"]: row for row in checked(json.loads(path.read_text()), "vitro.validate", 1, str(path), "a validation")["rows"]}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: is not a validation of vitro (expected schema vitro.validate/1)") from None


def noise(values):
    """How far a run is from the median of the others, mean over the runs: the error that the machine makes in predicting itself."""
    values = [value for value in values if value]
    if len(values) < 2:
        return None
    others = [statistics.median(values[:i] + values[i + 1:]) for i in range(len(values))]
    return statistics.fmean(abs(value / other - 1) for value, other in zip(values, others))


def throttled(runs):
    """What the results themselves say of clocks that the system held down."""
    said = [(run.get("machine_state") or {}).get("throttled") for run in runs]
    return [f"throttled: {text}" for text in dict.fromkeys(filter(None, said))]


def summary(rows, suite):
    def mape(name):
        errors = [flatten(row["relative_error"])[name] for row in rows]
        errors = [abs(error) for error in errors if error is not None]
        return statistics.fmean(errors) if errors else None

    against = [row["host_against_host"] for row in rows if row["host_against_host"] is not None]
    floor = statistics.fmean(against) if against else None
    agreement, pairs = rank_agreement(rows)
    inside = [row["band"]["decode_tokens_per_s"][0] <= row["host"]["decode_tokens_per_s"] <= row["band"]["decode_tokens_per_s"][1]
              for row in rows if "decode_tokens_per_s" in row.get("band", {}) and row["host"]["decode_tokens_per_s"]]
    answer = {"n": len(rows), "mape_decode": mape("decode_tokens_per_s"), "mape_prefill": mape("prefill_tokens_per_s"),
              "mape_p90": mape("token_latency_ms.p90"), "rank_agreement": agreement, "pairs": pairs, "host_against_host": floor,
              "inside_band": sum(inside) / len(inside) if inside else None,
              "tokens_equal": all(row["tokens_equal"] for row in rows), "bytes_equal": all(row["bytes_equal"] for row in rows),
              "decisions_equal": all(row["decisions"]["equal"] for row in rows if row["decisions"]),
              "conclusive": floor is not None and floor <= NOISE_LIMIT}
    answer["why"] = None if answer["conclusive"] else (
        "one run of each experiment says nothing of the machine's noise" if floor is None else
        f"refused: host against host {floor:.1%} is above {NOISE_LIMIT:.0%}, the machine was too noisy")
    answer["bounds"] = [_judged(key, bound, answer, floor) for key, bound in suite.bounds.items()]
    return answer


def rank_agreement(rows):
    """-> (share, number) of pairs with one model and prompt that differ by over APART on host and that sim orders alike."""
    alike = pairs = 0
    for i, a in enumerate(rows):
        for b in rows[i + 1:]:
            speeds = [row[side]["decode_tokens_per_s"] for side in ("host", "sim") for row in (a, b)]
            if a["group"] != b["group"] or not all(speeds) or max(speeds[:2]) <= (1 + APART) * min(speeds[:2]):
                continue
            pairs += 1
            alike += (speeds[0] < speeds[1]) == (speeds[2] < speeds[3])
    return (alike / pairs if pairs else None), pairs


def _judged(key, bound, answer, floor):
    measured = answer[key]
    if isinstance(bound, bool):
        return {"bound": key, "measured": measured, "limit": bound, "holds": measured is bound}
    limit = quantities.share(bound)
    if key == "mape_decode" and floor is not None:
        limit = max(limit, 2 * floor)  # nothing can be predicted better than it repeats itself
    holds = measured is not None and (measured >= limit if key == "rank_agreement" else measured <= limit)
    return {"bound": key, "measured": measured, "limit": limit, "holds": holds}


def _median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def _relative(sim, host):
    if sim is None or host is None:
        return None
    return sim / host - 1 if host else (0.0 if sim == 0 else None)
