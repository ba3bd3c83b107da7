"""Register tiles that the solver of engine/kernels/common/register_tile.hpp chooses (MNN-LLM 5.1)."""
from ..base import native, terminal
from ..errors import ConfigError
from .device import Device

DEFAULT_SHAPE = "64,4096,4096"


def solve(shape=DEFAULT_SHAPE, *, isa=None, device=None):
    """-> rows, one for each instruction, counting and number of sums.

    shape: "e,h,l", a product of e rows of activations and h rows of weights of l columns. isa: an instruction or a kernel set.
    device: of a device file, those of its cores."""
    rows = native.call("tiles", *_numbers(shape))
    if isa:
        known = sorted({row[key] for row in rows for key in ("instruction", "kernel_set")})
        if isa not in known:
            raise ConfigError(f'--isa: "{isa}" has no tiles (expected one of: {", ".join(known)})')
        rows = [row for row in rows if isa in (row["instruction"], row["kernel_set"])]
    if device:
        sets = _kernel_sets(Device(device))
        rows = [row | {"cores": sets[row["kernel_set"]]} for row in rows if row["kernel_set"] in sets]
        if not rows:
            names = ", ".join(sets) or "no kernel set"
            raise ConfigError(f"{device}: its cores have {names}, which --isa leaves out or which has no tiles")
    return rows


def _numbers(shape):
    parts = shape.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and 0 < int(part) < 2 ** 31 for part in parts):
        raise ConfigError(f'--shape: "{shape}" (expected e,h,l: three numbers above 0, such as {DEFAULT_SHAPE})')
    return [int(part) for part in parts]


def _kernel_sets(device):
    """-> {kernel set: classes of cores that run it}."""
    sets, suffix = {}, ".kernel_set"
    for name, kernel_set in device.parameters()[["parameter", "value"]].itertuples(index=False):
        if name.startswith("cpu.") and name.endswith(suffix):
            sets.setdefault(kernel_set, []).append(name.removeprefix("cpu.").removesuffix(suffix))
    return sets


def show(shape, rows):
    cells = [(row["instruction"], row["counting"], str(row["sums"]), " x ".join(map(str, row["tile"])) if row["tile"] else "none fits",
              f"{terminal.number(row['filled'])} of {row['registers']}", f"{row['before']:.3g}", _after(row)) for row in rows]
    cores = sorted({core for row in rows for core in row.get("cores", [])})
    terminal.table(f"tiles of {shape}" + (f" on {', '.join(cores)}" if cores else ""),
                   ["instruction", "counting", ">sums", ">e_p x h_p x l_p", ">registers", ">accesses before", ">after"], cells,
                   caption="\n".join(dict.fromkeys(f"{row['counting']}: {row['meaning']}" for row in rows)))


def _after(row):
    return "–" if row["after"] is None else f"{row['after']:.3g}"
