"""Classes of policies on their way to a run: named in the experiment, and sent to its process."""
import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..base import native
from ..base.attachments import packed
from ..errors import ConfigError
from .classes import KINDS
from .content import content_of

# By kind, as `vitro list` has them.
_LISTED = {"eviction": "evictions", "keep": "kv_keeps", "drift": "drifts", "look_ahead": "look_aheads", "place": "expert_places"}


def overrides(policies: Sequence[type]) -> list[str]:
    """What an experiment says of policies that come with its run: kind, name and content."""
    if not policies:
        return []
    rows = [described(policy) for policy in policies]
    for row in rows:
        check_name(row)
    entries = [{"kind": row["kind"], "name": row["name"], "content": content_of(row["class"]), "follows_budget": row["follows_budget"]}
               for row in rows]
    return [f"engine.policies={json.dumps(entries)}"]


def attached(policies: Sequence[type], *, twice: bool = False) -> list[dict[str, Any]]:
    """For a call in another process. twice: it is made again, and has to decide alike. -> [attachment]"""
    if not policies:
        return []
    return [packed("policies", "a class", partial(_described, list(policies))) | ({"twice": True} if twice else {})]


def described(policy: type) -> dict[str, Any]:
    """A class as the extension module wants it. Raises ConfigError on what is no policy."""
    kinds = [kind for kind in KINDS if isinstance(policy, type) and issubclass(policy, kind)]
    if len(kinds) != 1:
        raise ConfigError(f"policies: {policy!r} is not a policy (expected a class derived from one of vitro.Eviction, vitro.KvKeep, "
                          "vitro.ExpertDrift, vitro.ExpertPlacement and vitro.LookAhead)")
    kind, name = kinds[0], policy.__dict__.get("name", policy.__name__)
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name)):
        raise ConfigError(f"policies: {policy.__name__}.name is {name!r} (expected letters, digits, _, - and .)")
    if any(base.__dict__.get("name") == policy.__dict__.get("name", base) for base in policy.__mro__[1:]):
        # Such an attribute is taken for the inherited one on the way to another process, and lost.
        raise ConfigError(f"policies: {policy.__name__}.name is {name!r}, as that of a class it derives from (expected a name of its own)")
    if getattr(policy, kind._needs) is getattr(kind, kind._needs):
        raise ConfigError(f"policies: {policy.__name__} has no {kind._needs}() of its own")
    summary = (policy.__doc__ or f"{kind._kind} policy written in Python").strip().splitlines()[0]
    title = name if name == policy.__name__ else f"{name} ({policy.__name__})"
    return {"class": policy, "kind": kind._kind, "name": name, "title": title, "description": summary, "by": "class",
            "methods": {method for method in kind._methods if getattr(policy, method) is not getattr(kind, method)},
            "follows_budget": bool(getattr(policy, "follows_budget", False))}


def check_name(row: dict[str, Any]) -> None:
    """Raises ConfigError where a described class has the name of the engine's own of its kind: an experiment could not tell them apart."""
    own = [known["name"] for known in native.call("list", _LISTED[row["kind"]], "")]
    if row["name"] in own:
        raise ConfigError(f'policies: {row["class"].__name__}.name is "{row["name"]}" (expected another name than those of the engine: '
                          f"{', '.join(own)})")


def _described(policies: Sequence[type]) -> list[dict[str, Any]]:
    return [described(policy) for policy in policies]

