"""What `vitro calibrate` measures, and with which shapes. None of them is a shape of a model in experiments/validation."""
import json
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from ..base import process
from ..errors import RunError

MIB, GIB = 2 ** 20, 2 ** 30
ROWS, COLUMNS = 192, 1280  # of a small matrix: stays in a second-level cache in every format
# (variant, format, layout): what the engine's products are made of on this machine.
PRODUCTS = (("float", "f16", "rows"), ("float", "f32", "rows"), ("float", "q4_0", "rows"), ("float", "q8_0", "rows"),
            ("float", "q4_k", "rows"), ("float", "q6_k", "rows"), ("int8", "q4_0", "tiled"), ("int8", "q8_0", "tiled"),
            ("int8", "q4_k", "tiled"), ("int8", "q5_k", "tiled"), ("int8", "q6_k", "tiled"), ("int8", "q4_0", "rows"),
            ("int8", "q8_0", "rows"))
SUMS = ("float.f32", "float.f16", "float.q4_0", "float.q8_0", "int8.q4_0")  # accumulate: variants and formats
BATCHES = (1, 2, 4, 8, 16, 64)
STREAMS = (("float", "f16", "rows"), ("int8", "q8_0", "tiled"))  # products over every distance, one row
SETS_MIB = (1, 3, 12, 48, 96, 192, 384, 1024)                    # over which their weights rotate
FAR_MIB = (12, 96)                                               # and those of the other kernels
TRIES = 3                                                        # at a probe that other processes left nothing
FLUSH_ROWS = 64                                                  # of a product between small operators
BLOCKS = (4096, 20480, 98304, 196608, 786432)                    # bytes of a read
DEPTHS = (1, 4, 32)
SMALL = {"nothing": {"op": "add", "columns": 16}, "add": {"op": "add", "columns": 1280}, "rms_norm": {"op": "rms_norm", "columns": 1280},
         "glu": {"op": "glu", "rows": 12, "columns": 2560}, "rope": {"op": "rope", "rows": 6, "context": 160},
         "select": {"op": "select", "rows": 48, "columns": 2560}, "reduce": {"op": "reduce", "rows": 6, "columns": 1280},
         "attention f32": {"op": "attention", "format": "f32", "rows": 2, "context": 160},
         "attention f16": {"op": "attention", "format": "f16", "rows": 2, "context": 160}}


@dataclass
class Sample:
    """What one probe gave: a value for each pass over the plan."""
    values: list = field(default_factory=list)

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        """Half of the range over the passes, relative to the median."""
        return (max(self.values) - min(self.values)) / 2 / abs(self.median) if self.median else 0.0


def plan(*, quick, cores, file, file_bytes):
    """-> {name: (kind, args, reading)}: the name of each measured number, the probe and what of its answer counts."""
    probes = {"clock": ("clock", {"repetitions": 30}, _rates), "call_building": ("call_building", {"repetitions": 20}, _samples),
              "load_latency": ("load_latency", {"bytes": f"{256 if quick else 1024} MiB", "repetitions": 2}, _samples)}
    _plan_kernels(probes, quick)
    _plan_memory(probes, quick, cores)
    _plan_hand_off(probes, cores)
    _plan_storage(probes, quick, cores, file, file_bytes)
    for what in ("hit", "miss"):
        probes[f"cache {what}"] = ("cache", {"blocks": 3000, "layers": 12, "capacity": 18000, "named": 900, "steps": 40},
                                   lambda a, what=what: a[what])
    probes["policy"] = ("policy", {}, lambda answer: answer["seconds_per_call"])
    return probes


def _plan_kernels(probes, quick):
    def kernel(name, rounds, **args):
        probes[f"kernel {name}"] = ("kernel", {"rounds": rounds, "repetitions": 8 if quick else 16, **args}, _samples)

    for variant, form, layout in PRODUCTS:
        slow = form in ("q4_0", "q4_k", "q6_k") and variant == "float"
        for batch in BATCHES:
            rounds = max(2, (12 if slow else 60) // batch)
            kernel(f"{variant}.{form}.{layout} x{batch}", rounds, op="matmul", variant=variant, format=form, layout=layout, rows=ROWS,
                   columns=COLUMNS, batch=batch)
        if variant == "int8":  # few rows: what remains is the conversion of the activations
            kernel(f"{variant}.{form}.{layout} narrow", 200, op="matmul", variant=variant, format=form, layout=layout, rows=16,
                   columns=COLUMNS)
    for name in SUMS:
        variant, form = name.split(".")
        kernel(f"accumulate {name}", 20, op="accumulate", variant=variant, format=form, rows=ROWS, columns=COLUMNS)
    for form, variant in (("f16", "float"), ("q8_0", "int8")):
        for name, scattered in (("scattered", True), ("straight", False)):  # rows in any order are whole cache lines
            kernel(f"{name} {form}", 20, op="matmul", variant=variant, format=form, rows=96, columns=1536 if form == "f16" else 2048,
                   scattered=scattered)
    # Small operators stand between products in a model, and find their code and data in no first-level cache.
    for name, shape in SMALL.items():
        kernel(name, 60, flush_rows=FLUSH_ROWS, each_call=True, **shape)


def _plan_memory(probes, quick, cores):
    sets = [mib for mib in SETS_MIB if not quick or mib in (1, 12, 96, 384)]
    for variant, form, layout in STREAMS:
        for mib in sets:
            probes[f"stream {variant}.{form} {mib:g} MiB"] = (
                "kernel", {"op": "matmul", "variant": variant, "format": form, "layout": layout, "rows": 192, "columns": 1280,
                           "working_set": f"{mib} MiB", "rounds": max(1, int(12 / mib)), "repetitions": 6}, _samples)
    for variant, form, layout in PRODUCTS:
        for mib in FAR_MIB if (variant, form, layout) not in STREAMS else ():
            probes[f"stream {variant}.{form}.{layout} {mib} MiB"] = (
                "kernel", {"op": "matmul", "variant": variant, "format": form, "layout": layout, "rows": 192, "columns": 1280,
                           "working_set": f"{mib} MiB", "rounds": 1, "repetitions": 5}, _samples)
    size = "384 MiB" if quick else "1 GiB"
    for variant, form, layout in STREAMS:
        units = [f"cpu{core}" for core in range(min(cores, 8))]
        probes[f"streams {variant}.{form}"] = (
            "kernel", {"op": "matmul", "variant": variant, "format": form, "layout": layout, "rows": 192 * len(units), "columns": 1280,
                       "working_set": size, "rounds": 1, "repetitions": 6, "units": units}, _samples)
    for threads in range(1, min(cores, 8) + 1):
        probes[f"reads x{threads}"] = ("reads", {"bytes": size, "threads": threads, "repetitions": 4}, _rates)
    if not quick:
        for stride in (256, 4096):
            probes[f"reads stride {stride}"] = ("reads", {"bytes": size, "stride": f"{stride} B", "repetitions": 4}, _rates)


def _plan_hand_off(probes, cores):
    for gap in ("0 us", "200 us"):
        probes[f"hand_off policy's core {gap}"] = ("hand_off", {"units": ["cpu0"], "gap": gap}, _samples)
        if cores > 1:
            probes[f"hand_off other core {gap}"] = ("hand_off", {"units": ["cpu0", "cpu1"], "gap": gap, "skip": 1}, _samples)
    if cores > 2:
        units = [f"cpu{core}" for core in range(min(cores, 8))]
        probes[f"hand_off {len(units) - 1} other cores 0 us"] = ("hand_off", {"units": units, "gap": "0 us", "skip": 1}, _samples)


    work = {"op": "matmul", "variant": "float", "format": "f16", "rows": 96, "columns": COLUMNS, "calls": 200, "repetitions": 8}
    units = ["cpu0", "cpu1"][:cores]
    # While storage is busy the policy has a thread of its own, beside the core's worker; else it looks at answers between two calls.
    for name, reading in (("queued", _queued), *((("latency", _trip), ("cost", _interruption)) if cores > 1 else ())):
        probes[f"interrupt {name}"] = ("interrupt", {"units": units, "policy_computes": False, **work}, reading)
    if cores > 1:
        probes["answer between calls"] = ("interrupt", {"units": units, **work}, _interruption)


def _plan_storage(probes, quick, cores, file, file_bytes):
    def storage(name, reading, **args):
        args = {"file": str(file), "range": f"{file_bytes} B", **args}
        probes[f"storage {name}"] = ("storage", args, reading)

    for pattern in ("random", "sequential"):
        for block in BLOCKS:
            for depth in DEPTHS:
                if pattern == "sequential" and depth > 1:
                    continue
                reads = max(24, min(600 if quick else 2000, (24 if quick else 192) * MIB * min(depth, 4) // block))
                storage(f"{pattern} {block} x{depth}", lambda a: a["seconds_per_read"], pattern=pattern, block=f"{block} B", depth=depth,
                        reads=reads)
    for pages in ("fresh", "used"):
        storage(f"pages {pages}", lambda a: a["latency"]["p50"], block="98304 B", depth=1, reads=600 if quick else 1500,
                fresh_pages=pages == "fresh")
    storage("cpu", lambda a: a["cpu_seconds_per_read"], block="4096 B", depth=32, reads=4000, spin="0 us")
    if quick:
        return
    storage("buffered", lambda a: a["seconds_per_read"], block="98304 B", depth=4, reads=1000, buffered=True)
    for mib in (64, 512):
        storage(f"range {mib} MiB", lambda a: a["seconds_per_read"], block="4096 B", depth=4, reads=2000, range=f"{mib} MiB")
    if cores > 1:
        probes["storage two issuers"] = ("two issuers", {"file": str(file), "range": f"{file_bytes} B", "block": "4096 B", "depth": 16,
                                                          "reads": 4000}, lambda a: a["seconds_per_read"])


def _samples(answer):
    """The median, as runs are judged by theirs."""
    return statistics.median(answer["samples"])


_rates = _samples


def _queued(answer):
    """What a call waits beside another of its unit, more than calls of one chain wait for each other."""
    return statistics.median(answer["queued"]) - statistics.median(answer["alone"]) / 200


class TooBusy(RunError):
    """A probe found too little of the machine to say anything."""

    def __init__(self):
        super().__init__("calibrate: while one core computed, another one answered no call in half of the samples: other processes keep "
                         "this machine too busy to be measured (expected an idle one, or --realtime)")


def _trip(answer):
    if not answer["trips"]:
        raise TooBusy
    return statistics.median(answer["trips"])


def _interruption(answer):
    answered = statistics.median(answer["answers"])
    if answered == 0:
        raise TooBusy
    return (statistics.median(answer["disturbed"]) - statistics.median(answer["alone"])) / answered


def ask(kind, args):
    """One probe on the real machine, in a process of its own."""
    if kind == "policy":
        return _ask_policy()
    if kind != "two issuers":
        return process.call("probe", kind, json.dumps(args))
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda unit: process.call("probe", "storage", json.dumps(args | {"units": [unit]})), ("cpu0", "cpu1")))
    return {"seconds_per_read": max(answer["seconds_per_read"] for answer in answers) / 2}


def _ask_policy():
    """What deciding costs: the dense policy on a small model of its own, with kernels that do nothing. -> seconds for each call."""
    import tempfile
    from dataclasses import replace

    from ..model.make import PRESETS, make_model
    from ..running import experiments
    from ..trace.trace import load_trace
    with tempfile.TemporaryDirectory() as folder:
        make_model(replace(PRESETS["tiny"], layers=7, width=320, ffn=640, heads=5, kv_heads=1, rank=32), Path(folder) / "probe.gguf")
        experiment = {"experiment": "policy", "machine": "host", "model": {"gguf": str(Path(folder) / "probe.gguf")},
                      "engine": {"threads": 1, "function": "draw"},
                      "workload": {"prompt_tokens": 2, "output_tokens": 400, "stop_at_eos": False}}
        result = experiments.run(experiment)
        short = experiments.run(experiment, overrides={"workload.output_tokens": 3}, out=Path(folder) / "out")
        calls = sum(row[0] == "units" for row in load_trace(short.out).span_rows) / 3
    return {"seconds_per_call": result.metric("token_latency_ms.p50") * 1e-3 / calls}


def one_pass(probes, samples, answers, progress=None):
    """Asks each probe once, again if other processes left it nothing: adds a value to its sample and keeps its answer."""
    for done, (name, (kind, args, reading)) in enumerate(probes.items()):
        for more in reversed(range(TRIES)):
            answers[name] = ask(kind, args)
            try:
                samples[name].values.append(reading(answers[name]))
                break
            except TooBusy:
                if more == 0:
                    raise
        if progress:
            progress(done + 1)


def is_steady(samples, stable):
    """Whether nine of ten numbers have a spread of at most `stable`, over two passes or more."""
    spreads = sorted(sample.spread for sample in samples.values())
    return len(next(iter(samples.values())).values) > 1 and spreads[int(0.9 * (len(spreads) - 1))] <= stable


def make_file(folder, size):
    """A file of random bytes for the storage probes; the caller removes it."""
    import numpy
    path = Path(folder) / f"vitro-calibrate-{os.getpid()}.bin"
    random = numpy.random.default_rng(1)
    try:
        with open(path, "wb") as file:
            for _ in range(size // (16 * MIB)):
                file.write(random.bytes(16 * MIB))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise RunError(f"--storage {folder}: {error.strerror} (a file of {size // MIB} MiB is needed)") from None
    return path
