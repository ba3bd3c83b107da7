"""From measured probes to the parameters of a device file: each number comes from the probes that speak of it, and from no run.

A value carries the spread of what it was made from. Times are seconds, rates per second, as the probes have them.
"""
import math
from dataclasses import dataclass

from .calibrate_probes import BATCHES, BLOCKS, COLUMNS, MIB, PRODUCTS, ROWS, STREAMS, SUMS

ELEMENTWISE = ("add", "rms_norm", "glu", "rope")


@dataclass(frozen=True)
class Value:
    """One parameter: in the unit of the device file, with what it was measured by and how far that moved (relative)."""
    value: object  # a number, or {key: number} of a table
    unit: str
    source: str
    spread: float = 0.0
    kind: str = "measured"


class Fit:
    """samples: {name: Sample}; counts: {name: what count() says of a kernel probe's call}."""

    def __init__(self, samples, counts):
        self.samples, self.counts = samples, counts
        self.clock = self.of("clock")
        self.flush = self.of("kernel flush")
        self.overhead = max(0.0, self.of("kernel nothing") - self.flush)

    def of(self, name):
        return self.samples[name].median

    def spread(self, *names):
        return max(self.samples[name].spread for name in names)

    def has(self, name):
        return name in self.samples

    def value(self, number, unit, source, *names, kind="measured"):
        return Value(number, unit, source, self.spread(*names) if names else 0.0, kind)

    # ---- kernels

    def cores(self):
        """Parameters that all cores share: the prices of kernels."""
        tables = {name: {} for name in ("macs_per_cycle", "macs_per_cycle_batch", *(f"macs_per_cycle_batch_{b}" for b in BATCHES[2:]),
                                        "cycles_per_conversion")}
        used = []
        for variant, form, layout in PRODUCTS:
            key = f"{variant}.{form}" + (".rows" if variant == "int8" and layout == "rows" else "")
            base = f"kernel {variant}.{form}.{layout}"
            conversion = self._conversion(base) if variant == "int8" else 0.0
            tables["cycles_per_conversion"][key] = conversion * self.clock
            for batch in BATCHES:
                name = f"{base} x{batch}"
                used.append(name)
                seconds = max(self.of(name) - self.overhead - conversion * COLUMNS * batch, 1e-12)
                table = {1: "macs_per_cycle", 2: "macs_per_cycle_batch"}.get(batch, f"macs_per_cycle_batch_{batch}")
                tables[table][key] = ROWS * COLUMNS * batch / seconds / self.clock
        for kernel in SUMS:
            name = f"kernel accumulate {kernel}"
            used.append(name)
            tables["macs_per_cycle"][f"{kernel}.accumulate"] = self._rate(name, "macs")
            tables["cycles_per_conversion"][f"{kernel}.accumulate"] = 0.0
        for form in ("f32", "f16"):
            name = f"kernel attention {form}"
            used.append(name)
            tables["macs_per_cycle"][f"float.{form}.attention"] = self._rate(name, "macs")
            tables["cycles_per_conversion"][f"float.{form}.attention"] = 0.0
        for op in ELEMENTWISE:
            tables["macs_per_cycle"][f"op.{op}"] = self._rate(f"kernel {op}", "elementwise")
        spread = self.spread(*used)
        what = f"kernels on matrices of {ROWS} x {COLUMNS} that stay in the cache, less call_overhead"
        values = {name: Value(table, "", what, spread) for name, table in tables.items()}
        values["macs_per_cycle_otherwise"] = Value(min(tables["macs_per_cycle"][f"{v}.{f}"] for v, f, l in PRODUCTS if v == "float"), "",
                                                   "the slowest format that was measured", spread, "derived")
        values["elementwise_per_cycle"] = self.value(self._rate("kernel add", "elementwise"), "", "add of 6144 elements", "kernel add")
        values["conversions_per_cycle"] = Value(8, "", "copies between formats; not measured", kind="assumed")
        values["lookups_per_cycle"] = Value(16, "", "no kernel here looks up", kind="assumed")
        values["cycles_per_row_run"] = self._row_runs()
        values["call_overhead"] = self.value(self.overhead * 1e9, "ns", "one addition of 16 elements between products", "kernel nothing")
        return values

    def _conversion(self, base):
        """Seconds to quantise one activation, from a matrix of few rows: time = columns * (conversion + rows * weight)."""
        narrow, wide = (self.of(f"{base} {name}") - self.overhead for name in ("narrow", "x1"))
        weight = (wide - narrow) / ((ROWS - 16) * COLUMNS)
        return max(0.0, (narrow - 16 * COLUMNS * weight) / COLUMNS)

    def _rate(self, name, count):
        """Per cycle. What attention does beside its products is in its rate."""
        beside = self.flush if name.split()[1] in (*ELEMENTWISE, "attention") else 0.0
        return self.counts[name][count] / max(self.of(name) - beside - self.overhead, 1e-9) / self.clock

    def _row_runs(self):
        pairs = [(f"kernel scattered {form}", f"kernel straight {form}") for form in ("f16", "q8_0")]
        each = [(self.of(there) - self.of(straight)) / self.counts[there]["row_runs"] * self.clock for there, straight in pairs]
        return self.value(max(0.0, sum(each) / len(each)), "", "rows in any order beside the same rows in a row", *sum(pairs, ()))

    # ---- memory

    def reuse(self):
        """-> (curve {MiB: GB/s}, shared cache in MiB, values): reading again, by what was read in between."""
        sizes = sorted({float(name.split()[2]) for name in self.samples if name.startswith("stream ")})
        curve, spreads = {}, []
        for mib in sizes:
            names = [f"stream {variant}.{form} {mib:g} MiB" for variant, form, _ in STREAMS]
            rates = [self.counts[name]["read_bytes"] / (self.of(name) - self.overhead) / 1e9 for name in names]
            # In the nearest cache arithmetic bounds these two: what it gives is what the fastest kernel on such a matrix gets.
            curve[f"{mib:g}"] = max([math.exp(sum(map(math.log, rates)) / len(rates)), *self._cached_rates(mib * MIB)])
            spreads += [self.spread(*names), (max(rates) - min(rates)) / 2 / curve[f"{mib:g}"]]
        fast, slow = max(curve.values()), curve[f"{sizes[-1]:g}"]
        border = math.sqrt(fast * slow)
        cached = [mib for mib in sizes[:-1] if curve[f"{mib:g}"] >= border] if fast > 1.3 * slow else []
        held = math.sqrt(cached[-1] * sizes[sizes.index(cached[-1]) + 1]) if cached else 0  # the border lies between two sizes
        kernels = " and ".join(f"{variant}.{form}" for variant, form, _ in STREAMS)
        what = (f"{kernels} products over that many MiB, GB/s of one core; private_cache as the system tells it, shared_cache between "
                "the last loop that reads at cache speed and the next")
        return curve, held, Value(curve, "", what, max(spreads))

    def _cached_rates(self, size):
        """GB/s of the kernels whose one matrix is at most `size` bytes, and at least half of it."""
        alone = [f"kernel {variant}.{form}.{layout} x1" for variant, form, layout in PRODUCTS]
        alone += [f"kernel accumulate {form}" for form in SUMS]
        read = {name: self.counts[name].get("read_bytes", 0) for name in alone}
        return [bytes_ / (self.of(name) - self.overhead) / 1e9 for name, bytes_ in read.items() if size / 2 <= bytes_ <= size]

    def dram(self, cores, sizes):
        """What the engine's products draw from memory, which may be less than a loop that only reads."""
        streams = [f"streams {variant}.{form}" for variant, form, _ in STREAMS]
        most = max(self.counts[name]["read_bytes"] / self.of(name) for name in streams)
        one = 1e9 * self.reuse()[0][max(self.reuse()[0], key=float)]
        most = max(most, one)
        return {"bandwidth": self.value(most / 1e9, "GB/s", f"products on {min(cores, 8)} cores over {sizes}", *streams),
                "latency": self.value(self.of("load_latency") * 1e9, "ns", "loads that depend on one another, in random order",
                                      "load_latency"),
                "core_bandwidth": self.value(min(most, max(one, self.of("reads x1"))) / 1e9, "GB/s", f"one core over {sizes}", "reads x1")}

    # ---- handing work over

    def hand_off(self, other):
        """Of the policy's own core, or of another: wake_up, spin, hand_back in seconds."""
        name = "hand_off other core" if other else "hand_off policy's core"
        warm, cold = self.of(f"{name} 0 us") - self.overhead, self.of(f"{name} 200 us") - self.overhead
        # A worker that polls is there at once; beside the policy both have to be woken.
        back = max(0.0, (warm if other else warm / 2) - self.barrier()[0])
        # A core that computes is never idle for long, so beside the policy the wake-up of a busy one counts.
        wake, gap = (cold, "200 us") if other else (warm, "0 us")
        return {"wake_up": self.value(max(0.0, wake - back) * 1e6, "us", f"a call after {gap} of silence", f"{name} {gap}"),
                "spin": Value(20 if other else 0, "us", "how long workers poll before they sleep, and not beside the policy "
                              "(docs/machine-host.md)", kind="derived"),
                "hand_back": self.value(back * 1e6, "us", "a call right after the one before", f"{name} 0 us")}

    def barrier(self):
        """-> (seconds that each further core adds to a barrier, the probes): 0 with two cores, where it is part of hand_back."""
        name = next((name for name in self.samples if name.startswith("hand_off ") and name.endswith(" other cores 0 us")), None)
        if name is None:
            return 0.0, ()
        one = "hand_off other core 0 us"
        return max(0.0, (self.of(name) - self.of(one)) / (int(name.split()[1]) - 1)), (name, one)

    def policy(self):
        what = "the dense policy with kernels that do nothing, for each call that it plans"
        return {"plan_step_cycles": self.value(self.of("policy") * self.clock, "", what, "policy"),
                "submit_cycles": self.value(0.0, "", "part of hand_back and wake_up, which were measured with it", kind="derived"),
                "barrier_cycles": self.barrier_cycles(),
                "cache_lookup_cycles": Value(60, "", "one hash probe that hits the second-level cache; not measured", kind="assumed"),
                "cache_update_cycles": Value(150, "", "relinking an entry and a hash update; not measured", kind="assumed")}

    def barrier_cycles(self):
        seconds, probes = self.barrier()
        if not probes:
            return self.value(0.0, "", "part of hand_back: with two cores nobody else arrives", kind="derived")
        return self.value(seconds * self.clock, "", "a call to several cores at once, what each further one adds", *probes)

    # ---- storage

    def storage(self):
        """One read at a time gives the latency; many of them the serial time of each, as a device behind a hypervisor has it."""
        issue = self.of("storage cpu")
        latency, pace = _line({block: self.of(f"storage random {block} x1") for block in BLOCKS})
        stream_latency, _ = _line({block: self.of(f"storage sequential {block} x1") for block in BLOCKS})
        serial, serial_pace = _line({block: self.of(f"storage random {block} x32") for block in BLOCKS})
        deep = [f"storage random {block} x32" for block in BLOCKS]
        lone = [f"storage random {block} x1" for block in BLOCKS]
        serial_pace = max(serial_pace, 1e-13)
        lane = max(pace, serial_pace)  # the model lets a read leave flash and cross the link side by side
        ones, many = "one random read at a time, 4 to 768 KiB, latency and slope", "32 random reads at a time, 4 to 768 KiB"
        return {"link_bandwidth": self.value(1 / serial_pace / 1e9, "GB/s", f"{many}, slope", *deep),
                "transfer_overhead": self.value(serial * 1e6, "us", f"{many}, time of each but for its bytes", *deep),
                "issue_fixed": self.value(issue * 1e6, "us", "CPU time per 4 KiB read with 32 at a time", "storage cpu"),
                "latency_random": self.value(max(0.0, latency - issue - serial) * 1e6, "us", ones, *lone),
                "latency_sequential": self.value(max(0.0, stream_latency - issue - serial) * 1e6, "us",
                                                 "one sequential read at a time, likewise", "storage sequential 4096 x1"),
                "media_bandwidth": self.value(1 / lane / 1e9, "GB/s", ones, *lone)}


def _line(seconds_by_block):
    """seconds = latency + bytes * pace, least squares of the relative error. Both at least 0."""
    rows = [(1 / t, block / t) for block, t in seconds_by_block.items()]  # latency * a + pace * b = 1
    aa, ab, bb = (sum(x * y for x, y in pairs) for pairs in ([(a, a) for a, _ in rows], rows, [(b, b) for _, b in rows]))
    sa, sb = sum(a for a, _ in rows), sum(b for _, b in rows)
    determinant = aa * bb - ab * ab
    latency, pace = (sa * bb - sb * ab) / determinant, (aa * sb - ab * sa) / determinant
    if latency < 0:
        return 0.0, sb / bb
    if pace < 0:
        return sa / aa, 0.0
    return latency, pace


def covered(samples):
    """What the measurements reach: outside of it a prediction is an extrapolation."""
    sizes = [float(name.split()[2]) for name in samples if name.startswith("stream ")]
    threads = [int(name.split("x")[1]) for name in samples if name.startswith("reads x")]
    return {"threads": [1, max(threads)], "batch_rows": [1, max(BATCHES)], "working_set_mib": [min(sizes), max(sizes)],
            "read_bytes": [min(BLOCKS), max(BLOCKS)], "products": sorted({f"{variant}.{form}" for variant, form, _ in PRODUCTS}),
            "matrix_elements": [16 * COLUMNS, 768 * COLUMNS]}
