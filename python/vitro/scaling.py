"""Test-time scaling from Python (docs/design/test-time-scaling.md): a callable that judges what a model generates.

>>> def has_a_dog(sample):
...     return "dog" in sample.text
>>> result = vitro.run("experiments/scaling/words.yaml", scorer=has_a_dog)
>>> result["scaling"]["samples"][0]["score"]
"""
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .base.attachments import packed
from .errors import ConfigError


@dataclass(frozen=True)
class Sample:
    """A generated sequence, for beam search also an unfinished one."""

    text: str
    tokens: tuple[int, ...]  # without the stop token
    log_probability: float  # sum over all chosen tokens, the stop token included; natural logarithm, temperature 1
    ended: bool  # False: beam search asks in mid-sequence


def attached(scorer: "Callable[[Sample], float] | None") -> list[dict[str, Any]]:
    """A callable that judges samples, for a call in another process. -> [attachment]"""
    if scorer is None:
        return []
    if not callable(scorer):
        raise ConfigError(f"scorer: {scorer!r} is not callable (expected a function of a vitro.scaling.Sample that returns a number)")
    return [packed("scorer", "a callable", partial(_judge_by, scorer))]


def _judge_by(scorer: "Callable[[Sample], float]") -> Callable[..., float]:
    """What the extension module calls: a function of a sample's fields."""
    return lambda *, text, tokens, log_probability, ended: float(scorer(Sample(text, tuple(tokens), log_probability, ended)))
