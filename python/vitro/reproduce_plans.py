"""Plans of a reproduction: runs whose parts have a `plan:` get what `vitro plan` chooses for their device, model and memory."""
import hashlib
import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from .plan import make_plan
from .plan_probes import Bench
from .plan_text import text_of
from .reproduce_kept import Kept, planner

# Engine keys that a planner looks at, beside device, model and memory.
_DEPENDS = ("activations", "kv_format", "kv_per", "layout", "units", "clusters")


class Plans:
    """One plan per device, model, memory and batch-independent engine keys, each made once. Files live as long as this object."""

    def __init__(self, kept=None):
        self._kept = kept or Kept(None)
        self._folder = TemporaryDirectory(prefix="vitro-plans-")
        self._lock = threading.Lock()
        self._made, self._benches = {}, {}  # by what a plan depends on -> [lock, path]; by device -> [lock, Bench]

    def path_for(self, resolved, options):
        """resolved: the experiment without its plan; options of make_plan. -> the plan's file."""
        engine = {key: resolved["engine"][key] for key in _DEPENDS if key in resolved["engine"]}
        about = {key: resolved.get(key) for key in ("device", "model", "memory")} | {"engine": engine, "options": options}
        key = _digest(about)
        with self._lock:
            slot = self._made.setdefault(key, [threading.Lock(), None])
            device = _digest(about["device"])
            bench = self._benches.setdefault(device, [threading.Lock(), Bench(machine="sim", device=about["device"])])
        with slot[0]:
            if slot[1] is None:
                kept = f"{key}-{planner()}.plan.yaml"
                text = self._kept.get(kept)
                if text is None:
                    with bench[0]:  # plans of one device ask the same probes: the second one finds the answers
                        asked, probes = bench[1].asked, f"{device}.probes"
                        asked.update(self._kept.tree(probes) or {})
                        text = text_of(make_plan(about["model"], device=about["device"], overrides=_sets(about), cores=engine.get("units"),
                                                 bench=bench[1], **options))
                        self._kept.put(f"{probes}.json", json.dumps(asked))
                    self._kept.put(kept, text)
                path = Path(self._folder.name) / f"{key}.yaml"
                path.write_text(text)
                slot[1] = str(path)
        return slot[1]


def _sets(about):
    """Memory and engine as the planner takes them: KEY=VALUE, the cores apart."""
    engine = {key: value for key, value in about["engine"].items() if key != "units"}
    return [f"{part}.{key}={json.dumps(value) if isinstance(value, (dict, list)) else value}"
            for part, tree in (("memory", about["memory"] or {}), ("engine", engine)) for key, value in tree.items()]


def _digest(tree):
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]
