"""Tasks with exact answers: how often an experiment's model is right, at what latency and energy (docs/design/test-time-scaling.md).

A file of tasks has one JSON object a line, as GSM8K and its like are published:

    {"question": "Natalia sold 48 clips ...", "answer": "... #### 72"}

Every task is run at every point of the experiment's `sweep:` (or once, without one), such as 1 to 16 samples by two methods on two models.
"""
import decimal
import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base import inputs, no_code, outputs
from ..base.inputs import Experiment, Overrides, Path, Progress
from ..base.origins import with_origins
from ..base.whole_files import in_place
from ..errors import ConfigError, RunError
from ..policy import bring
from ..running import experiments
from ..running.result import Result
from .points import expanded
from .jobs import run_points
from .table import written

if TYPE_CHECKING:
    import pandas

NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"  # a text's last number is its answer
GOLD = r"(?s)(?:.*####)?\s*(.*?)\s*$"  # behind GSM8K's mark, or all of it
SECONDS = 60  # that a checking program may take


@dataclass(frozen=True)
class Task:
    prompt: str
    answer: str  # what is right
    fields: Mapping[str, Any]  # of its line
    line: int


def read_tasks(path: Path, *, template: str = "{prompt}", gold: str = GOLD, limit: int | None = None) -> list[Task]:
    """template: the prompt, with the fields of a line in braces. gold: the answer is the first group of its last match in "answer".
    Raises ConfigError with file and line."""
    pattern = _pattern("gold", gold)
    found: list[Task] = []
    with open(inputs.existing(path), encoding="utf-8", errors="strict") as file:
        try:
            lines = list(file)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 ({error})") from None
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        if limit is not None and len(found) == limit:
            break
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}:{number}: is not JSON: {error.msg} at column {error.colno} (expected one object a line)") from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; lists within lists
            raise ConfigError(f"{path}:{number}: can not be read as JSON ({error})") from None
        if not isinstance(fields, dict):
            raise ConfigError(f"{path}:{number}: {text.strip()[:40]} (expected an object)")
        if not isinstance(fields.get("answer"), (str, int, float)):
            raise ConfigError(f'{path}:{number}: "answer" is {"missing" if "answer" not in fields else fields["answer"]} (expected a text)')
        try:
            prompt = template.format_map(fields)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError, MemoryError) as error:
            raise ConfigError(f"{path}:{number}: the template {template!r} does not fit: {error} (there are {', '.join(fields)})") from None
        answer = extracted(pattern, str(fields["answer"]))
        if not answer:
            raise ConfigError(f'{path}:{number}: "answer" has no match of {gold!r}')
        found.append(Task(prompt, answer, fields, number))
    if not found:
        raise ConfigError(f"{path}: holds no task (expected one JSON object a line)")
    return found


def extracted(pattern: re.Pattern[str], text: str) -> str | None:
    """-> the first group of the last match, else the whole match; None without one."""
    last = None
    for match in pattern.finditer(text):
        last = match if match.group(0) or last is None else last
    return None if last is None else (last.group(1) if pattern.groups else last.group(0))


def same(found: str | None, answer: str) -> bool:
    """Numbers by value (1,200.0 is 1200), other texts but for case and outer space."""
    if found is None:
        return False
    try:
        return _number(found) == _number(answer)
    except decimal.InvalidOperation:
        return found.strip().casefold() == answer.strip().casefold()


def tasks(experiment: Experiment, file: Path, *, out: Path, template: str = "{prompt}", gold: str = GOLD, answer: str = NUMBER,
          check: str | None = None, limit: int | None = None, workers: int | None = None, on: str = "local", resume: bool = False,
          overrides: Overrides = None, machine: str | None = None, policies: Sequence[type] = (),
          progress: Progress | None = None) -> "pandas.DataFrame":
    """-> one row per point of the experiment's sweep: accuracy with its standard error, means of latency, energy and tokens.

    answer: a regular expression; the first group of its last match in the generated text is compared with the task's answer. check: a
    program that judges in its place. It reads {"task": the line, "text": what was generated} and exits with 0 for right, 1 for wrong.
    out: a folder for results.csv, answers.csv (a row per task and point), accuracy.png, and the runs, which `resume` keeps.
    policies: as in run().
    """
    import pandas
    if check:
        no_code.refuse("--check", check)
    pattern = _pattern("answer", answer)
    todo = read_tasks(file, template=template, gold=gold, limit=limit)
    # An experiment need not have a prompt of its own.
    fixed = [f"workload.prompt={json.dumps(todo[0].prompt, ensure_ascii=False)}", *inputs.as_overrides(overrides),
             *bring.overrides(policies)]
    whole = experiments.compose(experiment, overrides=fixed, machine=machine)
    with with_origins(lambda: whole.origins):
        chosen = expanded(whole.resolved["sweep"]) if whole.resolved.get("sweep") else [(None, {}, {})]
    listed = []
    for label, point, steps in chosen:
        origins = {key: whole.origins.at(*step) for key, step in steps.items()}
        listed += [(label, point | {"workload.prompt": task.prompt}, origins | {"workload.prompt": f"{file}:{task.line}"}) for task in todo]
    jobs = run_points(experiment, listed, out=out, overrides=fixed, workers=workers, on=on, resume=resume, machine=machine,
                      policies=policies, progress=progress)
    folder = outputs.folder(out, "out")
    rows, answers = [], []
    for index, (label, point, _) in enumerate(chosen):
        name = label or ", ".join(f"{key.rpartition('.')[2]} {written(value)}" for key, value in point.items()) or "all"
        judged = []
        for task, job in zip(todo, jobs[index * len(todo):]):
            if job.result is None:
                raise RunError(f"{name}, task of {file}:{task.line}: {job.error}")
            result = job.result
            found = None if check else extracted(pattern, result.text or "")
            right = _checked(check, task, result.text or "") if check else same(found, task.answer)
            judged.append({"point": name, "line": task.line, "answer": task.answer, "found": found, "right": right,
                           **_cost(result), "text": result.text})
        answers += judged
        rows.append({"point": name, **{key: written(value) if isinstance(value, (list, dict)) else value for key, value in point.items()},
                     **summary(judged)})
    frame = pandas.DataFrame(rows)
    for name, table in (("answers.csv", pandas.DataFrame(answers)), ("results.csv", frame)):
        with in_place(folder / name) as unfinished:
            table.to_csv(unfinished, index=False)
    from ..plot.pareto import accuracy
    with in_place(folder / "accuracy.png") as unfinished:
        accuracy(frame).savefig(unfinished, dpi=130)
    return frame


def summary(judged: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the tasks of one point. The error is binomial, by Agresti and Coull: it is not 0 where all or none are right."""
    count, right = len(judged), sum(row["right"] for row in judged)
    centre = (right + 2) / (count + 4)
    mean = {key: _mean([row[key] for row in judged]) for key in ("latency_ms", "energy_j", "tokens")}
    return {"tasks": count, "accuracy": right / count, "standard_error": math.sqrt(centre * (1 - centre) / (count + 4)), **mean}


def _cost(result: Result) -> dict[str, Any]:
    """Of one answer, from the prompt on. A run without scaling ends with its last token."""
    metrics = result.metrics
    scaling = metrics.get("scaling")
    tokens = len(result.tokens or [])
    rate = metrics.get("decode_tokens_per_s")
    latency = scaling["latency_ms"] if scaling else None if not rate else metrics["ttft_ms"] + 1e3 * (tokens - 1) / rate
    power = metrics.get("mean_power_w")
    return {"latency_ms": latency, "energy_j": None if power is None or latency is None else power * latency / 1e3,
            "tokens": scaling["generated_tokens"] if scaling else tokens}


def _checked(program: str, task: Task, text: str) -> bool:
    try:
        answer = subprocess.run([program], input=json.dumps({"task": task.fields, "text": text}), text=True, capture_output=True,
                                timeout=SECONDS, check=False)
    except OSError as error:
        raise ConfigError(f"--check: {program}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"--check: {program} took more than {SECONDS} s for the task of line {task.line}") from None
    if answer.returncode not in (0, 1):
        raise RunError(f"--check: {program} left with {answer.returncode} for the task of line {task.line} (expected 0: right, or 1: wrong)"
                       + (f"\n{answer.stderr.strip()}" if answer.stderr.strip() else ""))
    return answer.returncode == 0


def _pattern(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(f"{name}: {text!r} is no regular expression: {error}") from None


def _number(text: str) -> decimal.Decimal:
    value = decimal.Decimal(text.strip().replace(",", "").removeprefix("$").rstrip("."))
    if not value.is_finite():
        raise decimal.InvalidOperation
    return value


def _mean(values: list[Any]) -> float | None:
    return None if any(value is None for value in values) else sum(values) / len(values)
