"""Published figures: numbers, ranges and maps of them, and how far a simulated value is from one."""
from . import terminal

BOUND_WITHIN = 0.005  # of a published bound: those are rounded figures


def leaves_of(value, suffix=""):
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves_of(inner, f"{suffix}.{key}")]
    if value is None or is_range(value) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return [(suffix, value)]
    return []  # names and sets have nothing to be measured by


def is_range(value):
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, (int, float)) for end in value) and value[0] < value[1]


def relative_error(expected, simulated):
    """Relative to the published value; of a range, to the nearer end, and 0 inside."""
    if not is_range(expected):
        return (simulated - expected) / expected
    low, high = expected
    end = min(max(simulated, low), high)
    return (simulated - end) / end


def figure_text(row):
    if row["relation"] == "range":
        return "{:g} to {:g}".format(*row["expected"])
    if row["expected"] is None:
        return "–"
    return ("" if row["relation"] == "=" else row["relation"] + " ") + terminal.number(row["expected"], 4)
