"""The device as a planner sees it: times of kernels by number of rows, of reads by size, all from probes through the machine interface."""
import json
import math
import os
import statistics

from ..base import process

MIB = 2 ** 20
PROBE_HEAD = 64       # elements of a head in the attention probe
TILE_ROWS = 32
HOST_SET = 512 * MIB  # rotated over on a real machine, whose last-level cache would answer otherwise
SIM_COPIES = 4
OUTLASTS = 4         # times: how much longer the others read while one side's rate is probed; sharing slows it down by less
NEAR = 64 * MIB      # a range of flash whose addresses the device has at hand (UFS 4.0: 128 MB, PowerInfer-2, 2.3.2)


class Curve:
    """Seconds over a number of rows: straight lines through probed points, the outer ones prolonged."""

    def __init__(self, points):
        self.points = sorted(points)

    def __call__(self, rows):
        if rows <= 0:
            return 0.0
        points = self.points
        if len(points) == 1:
            return points[0][1] * rows / points[0][0]
        at = next((i for i in range(1, len(points) - 1) if rows <= points[i][0]), len(points) - 1)
        (x0, y0), (x1, y1) = points[at - 1], points[at]
        return max(0.0, y0 + (y1 - y0) * (rows - x0) / (x1 - x0))


def _call_by_call(device):
    """The device on which each call is simulated by itself, whatever the run does that is planned."""
    return device | {"cpu": device["cpu"] | {"calls": "each"}} if device and "cpu" in device else device


class Bench:
    """Probes of one machine. Every number is asked for once."""

    def __init__(self, *, machine, device, file=None):
        self.base = {"machine": machine} | ({"device": _call_by_call(device)} if machine == "sim" else {})
        self.machine, self.file, self.asked = machine, file, {}

    def ask(self, kind, **args):
        if self.machine == "host" and kind == "storage":
            args |= {"file": str(self.file)}
        key = kind + json.dumps(args, sort_keys=True)
        if key not in self.asked:
            self.asked[key] = process.call("probe", kind, json.dumps(self.base | args), forks=self.machine == "sim")
        return self.asked[key]

    def phase(self, *parts):
        """-> ([seconds of each part], [bytes that each reads])."""
        units = list(dict.fromkeys(unit for part in parts for unit in part["units"]))
        answer = self.ask("phase", units=units, parts=list(parts), repetitions=1 if self.machine == "sim" else 5)["parts"]
        return [statistics.median(part["samples"]) for part in answer], [part["read_bytes"] for part in answer]

    def copies(self, operand_bytes):
        return SIM_COPIES if self.machine == "sim" else max(1, -(-HOST_SET // operand_bytes))

    def product(self, units, rows, columns, *, form, variant, batch=1, op="matmul", scattered=False, copies=None):
        """One part of a phase: rows are rounded up to what the units can share."""
        grain = TILE_ROWS * len(units)
        rows = -(-rows // grain) * grain
        tiled = variant == "int8" and op == "matmul" and not scattered and form in ("q4_0", "q8_0")
        size = rows * columns * (4 if form == "f32" else 2)
        return {"op": op, "units": units, "variant": variant, "format": form, "rows": rows, "columns": columns, "batch": batch,
                "scattered": scattered, "layout": "tiled" if tiled else "rows", "copies": copies or self.copies(size)}

    def curve(self, units, most, columns, **shape):
        """Seconds of one product by its rows, at a 32nd, a quarter and all of `most`."""
        parts = [self.product(units, max(1, most // part), columns, **shape) for part in (32, 4, 1)]
        parts = {part["rows"]: part for part in parts}
        return Curve([(rows, self.phase(part)[0][0] / part["copies"]) for rows, part in parts.items()])

    def attention(self, unit, *, heads, head_dim, context, form, batch, group=None):
        """Seconds of attention over all heads of keys and values on one unit. group: query heads of each; None: the probe's own."""
        shape = {"format": form, "rows": max(1, heads * head_dim // PROBE_HEAD), "context": context, "batch": batch}
        return self.phase({"op": "attention", "units": [unit]} | shape | ({"columns": group} if group else {}))[0][0]

    def hand_off(self, units):
        return statistics.median(self.ask("hand_off", units=units, rounds=20)["samples"])

    def read(self, core, block, *, depth, pattern="random", range_bytes=2 ** 30):
        """-> (seconds for each read of a full queue, median latency). A file that is smaller than the range is read as a whole."""
        if self.file:
            range_bytes = min(range_bytes, os.path.getsize(self.file))
        answer = self.ask("storage", units=[core], block=f"{block} B", depth=depth, reads=max(96, 8 * depth), pattern=pattern,
                          range=f"{range_bytes // block * block} B")
        return answer["seconds_per_read"], answer["latency"]["p50"]

    def issue(self, core, depth):
        """Seconds that a core spends on a read, at most: small reads of a range that the device has at hand."""
        return self.read(core, 4096, depth=depth, range_bytes=NEAR)[0]

    def stream_rates(self, units, others, rows, columns, *, form, variants):
        """Bytes per second that `units` read alone, and while `others` read for longer than they do. variants: of both."""
        parts = [self.product(who, rows, columns, form=form, variant=variant, scattered=True)
                 for who, variant in zip((units, others), variants)]
        (mine,), (moved,) = self.phase(parts[0])
        (theirs,), _ = self.phase(parts[1])
        longer = parts[1] | {"copies": math.ceil(OUTLASTS * parts[1]["copies"] * mine / theirs)}
        seconds, both = self.phase(parts[0], longer)
        return moved / mine, both[0] / seconds[0]


class Device:
    """Curves of one choice of cores, for every batch size; what the times of a plan are made of."""

    def __init__(self, bench, facts, *, cores, accelerator, io_core, variant, kv_format, batches, context, range_bytes,
                 own_variant=None, kv_per="kv_head", decisions=None):
        """variant: the contract of matmuls; own_variant: of the accelerator's, None: the same."""
        self.bench, self.facts, self.cores, self.accelerator, self.io_core = bench, facts, cores, accelerator, io_core
        self.variant, self.kv_format, self.context, self.range_bytes = variant, kv_format, context, range_bytes
        self.own_variant = own_variant
        self.heads_on_cores = facts["kv"][kv_format]["for_cores"]  # an accelerator does not read it
        self.kept = {"heads": facts["model"]["heads"], "group": 1} if kv_per == "query_head" else {"heads": facts["model"]["kv_heads"]}
        self.decisions = decisions or {}              # seconds of each kind
        self.model, self.formats = facts["model"], facts["formats"]
        self.core, self.fast = {}, {}
        for batch in batches:
            self.core[batch] = self.unit_curves(cores, batch)
            if accelerator:
                self.fast[batch] = self.unit_curves([accelerator], batch)
        self.submit = bench.hand_off(cores[:1])
        self.wake = bench.hand_off(cores)
        self.launch = 0.0
        if accelerator:
            tiny = bench.product([accelerator], TILE_ROWS, self.model["width"], form=self.formats["ffn_bundle"],
                                 variant=self.variant_for("ffn_bundle", [accelerator]), scattered=self.scatters, copies=1)
            more = tiny | {"copies": 2}
            once, twice = bench.phase(tiny)[0][0], bench.phase(more)[0][0]
            self.launch = max(0.0, 2 * once - twice)
        self.core_streams = self.fast_streams = None  # bytes per second alone, and beside the other side
        if accelerator and self.scatters:
            self.core_streams, self.fast_streams = (
                bench.stream_rates(*sides, self.model["ffn"], self.model["width"], form=self.formats["ffn_bundle"],
                                   variants=[self.variant_for("ffn_bundle", side) for side in sides])
                for sides in ((cores, [accelerator]), ([accelerator], cores)))

    def deciding(self, named, missing, clusters):
        """Seconds that the policy's core needs to look up, admit and hand out what a layer names: by what the device file says that
        decisions cost. A machine that runs does not say; there it is nothing."""
        costs = self.decisions
        chains, calls = 2 * clusters, 5 * clusters    # product, selection; product, activation, sum
        return (named * costs.get("cache_lookup", 0.0) + missing * costs.get("cache_update", 0.0)
                + calls * costs.get("plan_step", 0.0) + chains * (costs.get("submit", 0.0) + costs.get("barrier", 0.0)))

    @property
    def scatters(self):
        """Rows that are whole cache lines can be placed one by one; shorter ones are probed side by side."""
        return self.facts["layouts"]["bundles"]["row"] % 64 == 0

    def variant_for(self, role, units):
        """As the engine chooses (engine/ops/product_contract.hpp): the first one asked for that such weights have."""
        asked = [self.own_variant] if units == [self.accelerator] else []
        return next((variant for variant in [*asked, self.variant] if variant in self.facts["contracts"][self.formats[role]]), "float")

    def variant_of_sums(self, units):
        """Of Down, by neurons: cores add q4_0 in the contract of the products, accelerators and other formats in float."""
        return self.variant if units == self.cores and self.formats["ffn_bundle"] == "q4_0" and self.variant == "int8" else "float"

    def unit_curves(self, units, batch):
        bench, model, formats = self.bench, self.model, self.formats
        width, scattered = model["width"], self.scatters
        queries = "attn_q" if "attn_q" in formats else "attn_qkv"
        bundle = {"form": formats["ffn_bundle"], "batch": batch, "scattered": scattered}
        curves = {"gate": bench.curve(units, model["ffn"], width, variant=self.variant_for("ffn_bundle", units), **bundle),
                  "down": bench.curve(units, model["ffn"], width, variant=self.variant_of_sums(units), op="accumulate", **bundle),
                  "dense": bench.curve(units, 2 * width, width, form=formats[queries], variant=self.variant_for(queries, units),
                                       batch=batch)}
        head = "output" if "output" in formats else "token_embedding"
        curves["head"] = bench.curve(units, model["vocab"], width, form=formats[head], variant=self.variant_for(head, units), batch=batch)
        attends = self.cores if self.heads_on_cores else units
        curves["attention"] = bench.attention(attends[-1], head_dim=model["head_dim"], context=self.context, form=self.kv_format,
                                              batch=batch, **self.kept)
        if model["predictor_rank"] and units == self.cores:
            rank = model["predictor_rank"]
            curves["rank"] = bench.curve(units, rank, width, form=formats["predictor_in"],
                                         variant=self.variant_for("predictor_in", units), batch=batch)
            curves["scores"] = bench.curve(units, model["ffn"], rank, form=formats["predictor_out"],
                                           variant=self.variant_for("predictor_out", units), batch=batch)
        return curves
