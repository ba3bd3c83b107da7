"""From measured probes to the parameters of a device file: each number comes from the probes that speak of it, and from no run.

A value carries the spread of what it was made from. Times are seconds, rates per second, as the probes have them.
"""
import math
import statistics
from dataclasses import dataclass

from .probes import BATCHES, BLOCKS, COLUMNS, DEPTHS, FAR_MIB, PRODUCTS, ROWS, STREAMS, SUMS

ELEMENTWISE = ("add", "rms_norm", "glu", "rope", "select", "reduce")
LINE = 64


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
        self.overhead = self.of("kernel nothing")

    def of(self, name):
        return self.samples[name].median

    def call(self, name):
        """Seconds of a call beside its overhead and its part of handing the chain over."""
        chain = 0.0 if "each_call" in self.counts[name] else self.of("hand_off policy's core 0 us") / self.counts[name].get("calls", 1e9)
        return max(self.of(name) - self.overhead - chain, 1e-9)

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
                seconds = max(self.call(name) - conversion * COLUMNS * batch, 1e-12)
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
        values["elementwise_per_cycle"] = self.value(self._rate("kernel add", "elementwise"), "", "add of 1280 elements", "kernel add")
        values["conversions_per_cycle"] = Value(8, "", "copies between formats; not measured", kind="assumed")
        values["lookups_per_cycle"] = Value(16, "", "no kernel here looks up", kind="assumed")
        values["cycles_per_row_run"] = self._row_runs()
        values["call_overhead"] = self.value(self.overhead * 1e9, "ns", "one addition of 16 elements between products", "kernel nothing")
        return values

    def _conversion(self, base):
        """Seconds to quantise one activation, from a matrix of few rows: time = columns * (conversion + rows * weight)."""
        narrow, wide = (self.call(f"{base} {name}") for name in ("narrow", "x1"))
        weight = (wide - narrow) / ((ROWS - 16) * COLUMNS)
        return max(0.0, (narrow - 16 * COLUMNS * weight) / COLUMNS)

    def _rate(self, name, count):
        """Per cycle. What attention does beside its products is in its rate."""
        return self.counts[name][count] / self.call(name) / self.clock

    def _row_runs(self):
        pairs = [(f"kernel scattered {form}", f"kernel straight {form}") for form in ("f16", "q8_0")]
        each = [(self.of(there) - self.of(straight)) / self.counts[there]["row_runs"] * self.clock for there, straight in pairs]
        return self.value(max(0.0, sum(each) / len(each)), "", "rows in any order beside the same rows in a row", *sum(pairs, ()))

    # ---- memory

    def misses(self):
        """-> a table: what each line of 64 bytes adds to a product that finds its weights beyond the private cache, by how much it reads
        before it comes round again (mean of two kernels), and how much more than that each kernel is slowed down."""
        sizes = sorted({float(name.split()[2]) for name in self.samples if name.startswith("stream ")})

        def added(variant, form, layout, mib):
            stream = f"stream {variant}.{form}" + ("" if (variant, form, layout) in STREAMS else f".{layout}") + f" {mib:g} MiB"
            lines = self.counts[stream]["read_bytes"] / LINE
            return max(0.0, self.call(stream) - self.call(f"kernel {variant}.{form}.{layout} x1")) / lines * 1e9

        curve, spreads = {}, []
        for mib in sizes:
            times = [added(*kernel, mib) for kernel in STREAMS]
            curve[f"{mib:g}"] = sum(times) / len(times)
            spreads += [self.spread(*(f"stream {variant}.{form} {mib:g} MiB" for variant, form, _ in STREAMS))]
        factors = {}
        for variant, form, layout in PRODUCTS:
            key = f"{variant}.{form}" + (".rows" if variant == "int8" and layout == "rows" else "")
            factors[key] = sum(added(variant, form, layout, mib) for mib in FAR_MIB) / sum(curve[f"{mib:g}"] for mib in FAR_MIB)
        kernels = " and ".join(f"{variant}.{form}" for variant, form, _ in STREAMS)
        what = (f"{kernels} products over that many MiB beside the same ones in the cache, ns for 64 bytes; kernels: over "
                f"{' and '.join(map(str, FAR_MIB))} MiB, relative to these")
        return Value(curve | factors, "", what, max(spreads))

    def dram(self, cores, sizes):
        """What the engine's products draw from memory, which may be less than a loop that only reads."""
        streams = [f"streams {variant}.{form}" for variant, form, _ in STREAMS]
        most = statistics.geometric_mean(self.counts[name]["read_bytes"] / self.of(name) for name in streams)
        far = max((name for name in self.samples if name.startswith("stream float.f16 ")), key=lambda name: float(name.split()[2]))
        one = max(self.counts[name]["read_bytes"] / self.of(name) for name in (far, far.replace("float.f16", "int8.q8_0")))
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
                "spin": Value(1000 if other else 0, "us", "how long workers poll before they sleep, and not beside the policy "
                              "(docs/design/machine-host.md)", kind="derived"),
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
        pages = 98304 // 4096
        fault = max(0.0, self.of("storage pages fresh") - self.of("storage pages used")) / pages
        cache = "bookkeeping of the neuron cache alone: 12 layers of 3000 blocks, half of them there"
        found = {"plan_step_cycles": self.value(self.of("policy") * self.clock, "", what, "policy"),
                 "submit_cycles": self.value(0.0, "", "part of hand_back and wake_up, which were measured with it", kind="derived"),
                 "barrier_cycles": self.barrier_cycles(),
                 "cache_lookup_cycles": self.value(self.of("cache hit") * self.clock, "", f"{cache}; one that is", "cache hit"),
                 "cache_update_cycles": self.value(self.of("cache miss") * self.clock, "", f"{cache}; one that is not", "cache miss")}
        wakes = {"page_fault_cycles": fault * self.clock, "switch_cost_us": max(0.0, self.of("interrupt queued")) * 1e6}
        names = ["storage pages fresh", "interrupt queued"]
        if self.has("interrupt cost"):
            idle = self.of("hand_off other core 0 us")
            wakes |= {"interrupt_cost_us": max(0.0, self.of("interrupt cost")) * 1e6,
                      "interrupt_latency_us": max(0.0, self.of("interrupt latency") - idle) * 1e6,
                      "answer_between_calls_us": max(0.0, self.of("answer between calls")) * 1e6}
            names += ["interrupt cost", "interrupt latency", "answer between calls"]
        said = ("a page: reads of 96 KiB to fresh pages beside reads to used ones; switch: two calls under way at the policy's core beside "
                "one chain; interrupt: a chain there while another unit answers small calls beside the chain alone, or such a call "
                "beside one while the core rests; all three with a policy thread of its own, and the answer between calls without")
        return found | {"wake_costs": self.value(wakes, "", said, *names)}

    def barrier_cycles(self):
        seconds, probes = self.barrier()
        if not probes:
            return self.value(0.0, "", "part of hand_back: with two cores nobody else arrives", kind="derived")
        return self.value(seconds * self.clock, "", "a call to several cores at once, what each further one adds", *probes)

    # ---- storage

    def storage(self):
        """A round of `depth` reads takes latency + depth * serial time where a device works through its queue in one go, and the longer of
        the two where it serves side by side. Four reads at a time tell which."""
        issue = self.of("storage cpu")
        serial_by_block, latencies, together, apart = {}, [], 0.0, 0.0
        for block in BLOCKS:
            lone, few, many = (self.of(f"storage random {block} x{depth}") for depth in DEPTHS)
            latency = max(0.0, (lone - many) / (1 / DEPTHS[0] - 1 / DEPTHS[2]))
            serial = max(many - latency / DEPTHS[2], 1e-7)
            together += abs(math.log((serial + latency / DEPTHS[1]) / few))
            apart += abs(math.log(max(many, lone / DEPTHS[1]) / few))
            serial_by_block[block] = serial if together <= apart else many
            latencies.append(lone - serial_by_block[block])
        if together > apart:
            serial_by_block = {block: self.of(f"storage random {block} x{DEPTHS[2]}") for block in BLOCKS}
            latencies = [self.of(f"storage random {block} x1") - serial_by_block[block] for block in BLOCKS]
        serial, pace = _line(serial_by_block)
        latency = statistics.median(latencies)
        stream = statistics.median(self.of(f"storage sequential {block} x1") - serial_by_block[block] for block in BLOCKS)
        pace = max(pace, 1e-13)
        names = [f"storage random {block} x{depth}" for block in BLOCKS for depth in DEPTHS]
        rounds = "1, 4 and 32 random reads at a time, 4 to 768 KiB"
        return {"link_bandwidth": self.value(1 / pace / 1e9, "GB/s", f"{rounds}: slope of the time that each adds", *names),
                "transfer_overhead": self.value(serial * 1e6, "us", f"{rounds}: that time, but for the bytes", *names),
                "issue_fixed": self.value(issue * 1e6, "us", "CPU time per 4 KiB read with 32 at a time", "storage cpu"),
                "latency_random": self.value(max(0.0, latency - issue) * 1e6, "us", f"{rounds}: time of a round, but for what each adds",
                                             *names),
                "latency_sequential": self.value(max(0.0, stream - issue) * 1e6, "us", "one sequential read at a time, likewise",
                                                 "storage sequential 4096 x1"),
                "media_bandwidth": self.value(1 / pace / 1e9, "GB/s", "no lane of its own was seen", *names, kind="derived"),
                "completions": "together" if together <= apart else "each"}


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
