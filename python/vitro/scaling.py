"""Test-time scaling from Python (docs/test-time-scaling.md): a callable that judges what a model generates.

>>> def has_a_dog(sample):
...     return "dog" in sample.text
>>> result = vitro.run("experiments/scaling/words.yaml", scorer=has_a_dog)
>>> result["scaling"]["samples"][0]["score"]
"""
import base64
import sys
from dataclasses import dataclass

from .errors import ConfigError


@dataclass(frozen=True)
class Sample:
    """A generated sequence, for beam search also an unfinished one."""

    text: str
    tokens: tuple[int, ...]  # without the stop token
    log_probability: float  # sum over all chosen tokens, the stop token included; natural logarithm, temperature 1
    ended: bool  # False: beam search asks in mid-sequence


def packed(scorer):
    """A callable as JSON for the run's process: one of a notebook or a script travels by value, one of a module by name."""
    if not callable(scorer):
        raise ConfigError(f"scorer: {scorer!r} is not callable (expected a function of a vitro.scaling.Sample that returns a number)")
    try:
        import cloudpickle
    except ImportError as error:
        raise ConfigError(f"scorer: a callable reaches the run's process by cloudpickle, which is missing ({error})") from None
    try:
        data = cloudpickle.dumps(scorer)
    except Exception as error:
        raise ConfigError(f"scorer: the callable can not be sent to the run's process ({error})") from error
    return {"callable": base64.b64encode(data).decode(), "path": sys.path}


def unpacked(data):
    """-> what the extension module calls, in the process that runs it: a function of a sample's fields."""
    import cloudpickle
    sys.path += [folder for folder in data["path"] if folder not in sys.path]
    scorer = cloudpickle.loads(base64.b64decode(data["callable"]))
    return lambda *, text, tokens, log_probability, ended: float(scorer(Sample(text, tuple(tokens), log_probability, ended)))


def rows(scaling):
    """The samples of a result as a table: column names and rows of texts."""
    from .terminal import number
    columns = ["", ">score", ">tokens", "answer", "text"] if scaling.get("votes") else ["", ">score", ">tokens", "text"]
    table = []
    for index, sample in enumerate(scaling["samples"]):
        text = " ".join(sample["text"].split())
        row = ["*" if index == scaling["chosen"] else str(index), number(sample["score"]), str(len(sample["tokens"]))]
        row += [sample["answer"] or "–"] if scaling.get("votes") else []
        table.append(row + [text if len(text) <= 70 else text[:69] + "…"])
    return columns, table
