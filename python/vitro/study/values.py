"""Values of points as they are compared: by what they are, not by how a file or a library writes them."""
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def text_of(value: Any) -> str:
    """1, 1.0, "1" and NumPy's 1 are one value of a point; YAML would say so, too. What is not there is None, also where a table says NaN.
    Every digit counts. Lists and maps are as the store has them, in JSON."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number: int | float = int(value) if value.lstrip("+-").isdecimal() else float(value)
        value = number if math.isfinite(number) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "None"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return json.dumps(value, default=str) if isinstance(value, (list, tuple, Mapping)) else str(value)


def several(wanted: Any) -> tuple[Any, ...]:
    """What a condition asks for: the values of a list, a range, a set, an array; else the one value."""
    if isinstance(wanted, (str, bytes, Mapping)) or getattr(wanted, "shape", None) == () or not isinstance(wanted, Iterable):
        return (wanted,)
    return tuple(wanted)
