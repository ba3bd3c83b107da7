"""Plans of a reproduction: runs whose parts have a `plan:` get what `vitro plan` chooses for their device, model and memory."""
import hashlib
import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from ..plan.planner import make_plan
from ..plan.probes import Bench
from ..plan.text import text_of
from .kept import Kept, planner

# Engine sections that a planner looks at, beside device, model and memory.
_DEPENDS = ("weights", "ffn", "kv", "products", "placement")


class Plans:
    """One plan per device, model, memory and batch-independent engine keys, each made once. Files live as long as this object."""

    def __init__(self, kept=None):
        self._kept = kept or Kept(None)
        self._folder = TemporaryDirectory(prefix="vitro-plans-")
        self._lock = threading.Lock()
        self._made, self._benches = {}, {}  # by what a plan depends on -> [lock, path]; by device -> [lock, Bench]

    def path_for(self, given, options):
        """given: the experiment as composed, without its plan: what is not given is the planner's to choose. options of make_plan.
        -> the plan's file."""
        engine = {key: given["engine"][key] for key in _DEPENDS if key in given["engine"]}
        about = {key: given.get(key) for key in ("device", "model", "memory")} | {"engine": engine, "options": options}
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
                        cores = (engine.get("placement") or {}).get("units")
                        text = text_of(make_plan(about["model"], device=about["device"], overrides=_sets(about), cores=cores,
                                                 bench=bench[1], **options))
                        self._kept.put(f"{probes}.json", json.dumps(asked))
                    self._kept.put(kept, text)
                path = Path(self._folder.name) / f"{key}.yaml"
                path.write_text(text)
                slot[1] = str(path)
        return slot[1]


def _sets(about):
    """Memory and engine as the planner takes them: KEY=VALUE, the cores apart."""
    engine = {f"{section}.{key}": value for section, tree in about["engine"].items() for key, value in tree.items()
              if (section, key) != ("placement", "units")}
    return [f"{part}.{key}={value if isinstance(value, str) else json.dumps(value)}"
            for part, tree in (("memory", about["memory"] or {}), ("engine", engine)) for key, value in tree.items()]


def _digest(tree):
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]
