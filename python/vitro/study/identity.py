"""What a point is, by content: two points of one identity give the same row, and whatever changes a row changes its identity."""
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base import fingerprints
from ..base.trees import value_at
from ..device.models import described
from ..policy.content import content_of

# Keys that name or judge a run and do not change what it does.
_ABOUT = ("experiment", "description", "sweep", "search", "metrics", "expect")
_VERSION = 1
# Where an engine names a policy of each kind.
_POLICIES = {"eviction": ("weights", "eviction"), "keep": ("kv", "keep"), "drift": ("ffn", "experts", "drift"),
             "look_ahead": ("weights", "experts", "ahead"), "place": ("ffn", "experts", "place")}


@dataclass(frozen=True)
class Identity:
    """digest: 20 hex digits. files: what was read, {path: SHA-256}. engine: SHA-256. host: of a host run, the machine. plugins: of the
    environment, {path: SHA-256}."""

    digest: str
    files: dict[str, str]
    engine: str
    host: dict[str, Any] | None
    plugins: dict[str, str] = field(default_factory=dict)

    def changed(self) -> str | None:
        """A file that is no longer what it was then: of the experiment, of the plug-ins or the extension module. None: all are."""
        for path, content in (self.files | self.plugins | {fingerprints.engine_file(): self.engine}).items():
            try:
                if fingerprints.of_file(path) != content:
                    return path
            except OSError:
                return path
        return next((path for path in fingerprints.plugins_of_environment() if path not in self.plugins), None)


def identity_of(resolved: dict[str, Any], models: Sequence[type] = ()) -> Identity:
    """Of a resolved experiment, with the engine, the files and the machine as they are now. models: device models in Python that come with
    its run; those that the device names count, by the content of their code (policy/content.py).

    The engine is the content of the extension module: its revision is written down beside each row, but a commit that leaves the module as
    it is reruns nothing. A file stands for its content, so another folder is no change and another model under the old name is one."""
    whole = _with_used_policies({key: value for key, value in resolved.items() if key not in _ABOUT})
    files = fingerprints.files_read(resolved)
    plugins = {path: fingerprints.of_file(path) for path in fingerprints.plugins_of_environment()}
    engine, host = fingerprints.engine(), fingerprints.host() if resolved["machine"] == "host" else None
    used = sorted((model["name"], content_of(model["class"])) for model in map(described, models)
                  if model["name"] in _model_names(resolved.get("device")))
    parts = [_VERSION, engine, sorted(plugins.values()), host, _by_content(whole, files) if files else whole, *([used] if used else [])]
    digest = fingerprints.of_tree(parts)[:20]
    return Identity(digest, files, engine, host, plugins)


def _with_used_policies(whole):
    """Of policies in Python those that the engine names: another one changes nothing."""
    engine = whole.get("engine") or {}
    named = {kind: _at(engine, *path) for kind, path in _POLICIES.items()}
    used = [policy for policy in engine.get("policies") or () if policy["name"] == named.get(policy["kind"])]
    rest = {key: value for key, value in engine.items() if key != "policies"}
    return whole | ({"engine": rest | ({"policies": used} if used else {})} if "policies" in engine else {})


def _model_names(tree):
    """Of all blocks of a device."""
    if isinstance(tree, list):
        return {name for item in tree for name in _model_names(item)}
    if not isinstance(tree, dict):
        return set()
    own = {tree["model"]} if isinstance(tree.get("model"), str) else set()
    return own | {name for item in tree.values() for name in _model_names(item)}


def _at(tree, *keys):
    for key in keys:
        tree = (tree or {}).get(key)
    return tree


def _by_content(tree, files):
    if isinstance(tree, dict):
        return {key: _by_content(value, files) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_by_content(value, files) for value in tree]
    return {"content": files[tree]} if isinstance(tree, str) and tree in files else tree


def outputs_of(resolved: dict[str, Any]) -> list[str]:
    """The files that a run of this writes."""
    return [path for key in fingerprints.OUTPUTS if (path := value_at(resolved, key))]
