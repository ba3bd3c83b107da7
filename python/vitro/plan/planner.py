"""The offline planner (PowerInfer-2, section 5): which neurons, heads and cores do what, from probes and a profile alone.

`make_plan` -> the plan as a dict, as plan_text writes it and `engine.plan` reads it.
"""
import functools
import json
import math
from dataclasses import replace
from pathlib import Path

import yaml

from ..base import native
from ..base.inputs import existing
from ..errors import ConfigError
from ..running import experiments
from .balance import Balance, best
from .inputs import core_classes, core_sets, decision_costs, io_cores, memory_of, profile_of
from .probes import Bench, Device
from .settings import BATCHES, CLIFF, CONTEXT, ENGINE, LARGEST_STAGING, PREFILL_ROWS, STEPS_OF_A_BATCH, STREAM_GAIN
from .spread import spread, total
from .workload import load as loaded
from .workload import load_apart

MIB = 2 ** 20
MAPS = ("engine.placement", "engine.hybrid")
OWN = tuple(f"{part}.activations" for part in MAPS)


def make_plan(model, *, device, profile=None, overrides=(), cores=None, accelerator=None, machine="sim", hottest_first=False,
              storage_file=None, progress=None, bench=None, apart=None, activations=None):
    """model, device: paths, or what such files hold. profile: a recording, or a file with `profile:` or `engine.profile`; none: the model
    file's own.
    overrides: memory.* and engine.* as a run has them. accelerator: its name, "" for none; None: npu where the device has one.
    apart: "none", "layers" or "experts" may have hot shares of their own; None: layers, and of a mixture none. bench: of this machine and
    device, with what was asked of it before. activations: of the accelerator, as engine.placement.activations has them; None: what the
    overrides say."""
    overrides, stated = own_activations([*overrides, *([f"{OWN[0]}={activations}"] if activations else [])])
    composed = compose(model, device, overrides)
    facts = native.call("plan_facts", composed.tree)
    given, tree = composed.given, composed.resolved
    engine, device_tree = tree["engine"], tree["device"]
    draws, recording, source_of_profile = profile_of(profile, given)
    source = {"profile": draws, "recording": recording, "hottest_first": hottest_first, "keep": engine["ffn"]["clusters"]["keep"]}

    @functools.cache
    def assume(layout):
        """What the profile and the memory come to when neurons lie like this."""
        return loaded(facts, layout=layout, **source), memory_of(tree, facts, machine, layout)

    def assume_apart(layout):
        return load_apart(facts, apart == "experts", layout=layout, **source)

    if accelerator is None:
        accelerator = "npu" if machine == "sim" and "npu" in device_tree else ""
    classes = core_classes(device_tree, machine, accelerator)
    bench = bench or Bench(machine=machine, device=device_tree, file=storage_file)
    integers = any("int8" in facts["contracts"][form] for form in facts["formats"].values())
    numerics = given["engine"].get("products", {}).get("numerics", "int8" if integers else "float")
    own = _checked(stated, model, device) if stated else "same"
    if own != "same" and not accelerator:
        raise ConfigError(f"{OWN[0]}: {own} is of an accelerator's matmuls, and the plan has none (expected one, or {OWN[0]}: same)")
    # The reads of a layer lie within its FFN, whose addresses the device soon has at hand.
    bundles = facts["layouts"]["bundles"]
    range_bytes = max(16 * MIB, bundles["blocks"] * bundles["block"] * max(1, facts["model"]["experts_used"]))
    settings = {"accelerator": accelerator, "variant": _variant(numerics), "own_variant": _variant(own),
                "kv_format": engine["kv"]["format"], "kv_per": engine["kv"]["per"],
                "context": min(CONTEXT, facts["model"]["context"] or CONTEXT), "range_bytes": range_bytes,
                "decisions": decision_costs(device_tree) if machine == "sim" else {}}
    planner = _Planner(facts, bench, assume, classes, settings, progress or (lambda done, total: None))
    planner.numerics, planner.own = numerics, own
    if engine["weights"]["layout"] in facts["layouts"]:
        planner.given_layout(engine["weights"]["layout"])
    planner.choose_cores(cores)
    planner.choose_reading()
    planner.choose_clusters()
    planner.choose_splits()
    if accelerator and (apart or ("none" if facts["model"]["experts"] else "layers")) != "none":
        planner.choose_by_layer(assume_apart(planner.layout))
    planner.choose_streams()
    return planner.result(device_tree, machine, source_of_profile)


def compose(model, device, overrides):
    """The experiment that a plan is for, as far as it matters to one. What a run would refuse is refused here."""
    return experiments.compose({"experiment": "plan", "model": _part(model), "device": _part(device), "engine": ENGINE,
                                "workload": {"prompt_tokens": 1}}, overrides=list(overrides))


def own_activations(overrides):
    """-> the overrides without the accelerator's activations, and the one that states them, or None. They need an accelerator among the
    units, which a plan chooses later, while the overrides may name cores alone."""
    others, own = [], None
    for override in overrides:
        key, _, text = override.partition("=")
        if key in OWN:
            own = override
            continue
        if key in MAPS:
            own = None  # an override replaces the whole map
            try:
                value = yaml.safe_load(text)
            except yaml.YAMLError:
                value = None  # refused with the others
            if isinstance(value, dict) and "activations" in value:
                own = f"{OWN[0]}={json.dumps(value.pop('activations'))}"
                override = f"{key}={json.dumps(value)}"
        others.append(override)
    return others, own


def _checked(stated, model, device):
    """What such an override comes to, beside an accelerator."""
    tree = {"experiment": "plan", "model": _part(model), "device": _part(device), "engine": ENGINE | {"units": ["npu"]},
            "workload": {"prompt_tokens": 1}}
    placement = experiments.compose(tree, overrides=[stated]).given["engine"]["placement"]
    return placement.get("activations") or "same"


def _variant(numerics):
    """The contract that probes ask for; None: no own one."""
    return {"same": None, "fp16": "hmx"}.get(numerics, numerics)


def _part(part):
    return part if isinstance(part, dict) else str(Path(existing(part)).absolute())


class _Planner:
    def __init__(self, facts, bench, assume, classes, settings, progress):
        self.facts, self.bench, self.assume, self.classes = facts, bench, assume, classes
        self.settings, self.progress, self.model = settings, progress, facts["model"]
        self.layouts = list(facts["layouts"])  # to choose from
        self.layout, self.io_depth, self.cluster = "bundles", 32, 64
        self.workload, self.memory = assume(self.layout)
        self.why, self.table = {}, {}

    def given_layout(self, layout):
        """Cores are chosen for how often this one reads."""
        self.layouts, self.layout = [layout], layout
        self.workload, self.memory = self.assume(layout)

    def _device(self, cores, io_core, batches):
        return Device(self.bench, self.facts, cores=cores, io_core=io_core, batches=batches, **self.settings)

    def _balance(self, device):
        return Balance(device, self.workload, self.memory, layout=self.layout, io_depth=self.io_depth,
                       cluster_neurons=self.cluster)

    def choose_cores(self, given):
        """Sets of cores, fastest classes first, judged by what one layer takes on cores alone at batch 1; one core issues reads."""
        every = [core for _, names in self.classes for core in names]
        sets = [list(given)] if given else core_sets(self.classes)
        for core in given or ():
            if core not in every:
                raise ConfigError(f'--cores: "{core}" is not a core of this device (there are {", ".join(every)})')
        alone = self.settings | {"accelerator": ""}
        candidates = []
        for cores in sets:
            for io_core in io_cores(self.classes, cores):
                device = Device(self.bench, self.facts, cores=cores, io_core=io_core, batches=(1,), **alone)
                balance = self._balance(device)
                candidates.append((balance.ffn(1, 0).total + balance.attention(1, 0).total, cores, io_core))
                self.progress(len(candidates), 5 * len(sets))
        seconds, self.cores, self.io_core = min(candidates, key=lambda candidate: candidate[0])
        told = "; ".join(f"{'+'.join(cores)}, reads by {io}: {_ms(time)}" for time, cores, io in sorted(candidates, key=lambda c: c[0])[:6])
        self.why["units"] = f"one layer at batch 1 on cores alone, by the cores that compute: {told}"
        four = {core: self.bench.issue(core, self.io_depth)
                for core in dict.fromkeys([names[0] for _, names in self.classes] + [self.io_core])}
        rates = ", ".join(f"{core} {1e-3 / seconds:.0f} thousand/s" for core, seconds in four.items())
        computing = "computes as well" if self.io_core in self.cores else "not needed for computing"
        self.why["io_core"] = f"4 KiB reads that each core issues, over 64 MiB: {rates}; {self.io_core} {computing}"

    def choose_reading(self):
        """Depth: the least within 2 % of the best rate. Layout: what a neuron that is missing costs."""
        block = self.facts["layouts"]["bundles"]["block"]
        rates = {depth: 1 / self.bench.read(self.io_core, block, depth=depth, range_bytes=self.settings["range_bytes"])[0]
                 for depth in (1, 2, 4, 8, 16, 32)}
        self.io_depth = min(depth for depth, rate in rates.items() if rate >= 0.98 * max(rates.values()))
        self.why["io_depth"] = f"random reads of {block} B by depth, MB/s: " + ", ".join(
            f"{depth}: {rate * block * 1e-6:.0f}" for depth, rate in rates.items())
        device = self._device(self.cores, self.io_core, ())
        reuse = self.workload.batches[1]
        fired = reuse.cold(0, "fired") / max(1e-9, reuse.cold(0, "named"))
        costs = {}
        for layout in self.layouts:
            self.layout = layout
            costs[layout] = self._balance(device).reads([(1, 1e6)], fired)[0]
        self.layout = min(costs, key=lambda layout: (costs[layout], layout != "bundles"))
        self.workload, self.memory = self.assume(self.layout)
        sizes = self.facts["layouts"]
        self.why["layout"] = f"a missing neuron of which {fired:.0%} fire once their gate is known: " + ", ".join(
            f"{layout} {cost * 1e6:.1f} us ({_phases(sizes[layout])})" for layout, cost in costs.items())

    def choose_clusters(self):
        """Many small clusters cost hand-offs, few large ones leave cores idle at the end."""
        device = self.device = self._device(self.cores, self.io_core, BATCHES)
        if self.settings["accelerator"]:
            self.prefill = {units: self._prefill_seconds(units) for units in (tuple(self.cores), (self.settings["accelerator"],))}
        named, cores = self.workload.batches[1].cold(0, "named"), len(self.cores)
        work = device.core[1]["gate"](named) + device.core[1]["down"](named)
        costs = {size: 2 * device.submit * named / size / cores + work * min(1.0, size * cores / max(named, 1)) / 2
                 for size in (16, 32, 64, 128, 256)}
        self.cluster = min(costs, key=costs.get)
        self.why["neurons"] = "hand-offs and idle cores at the end of a layer by neurons in a cluster, ms: " + ", ".join(
            f"{size}: {1e3 * cost:.3f}" for size, cost in costs.items())
        unit = self.tile = math.lcm(32, self.facts["layouts"][self.layout]["per_block"])
        self.hot_cluster = min(self.model["ffn"], max(unit, self.model["ffn"] // 64 // unit * unit))
        block = self.facts["layouts"][self.layout]["block"]
        per_block = self.facts["layouts"][self.layout]["per_block"]
        self.why["cluster"] = (f"a 64th of an FFN, so that shares are fine, in tiles of 32 and whole blocks; "
                               f"{self.hot_cluster // per_block * block // 1024} KiB of sequential reading each")
        self._choose_staging()

    def _choose_staging(self):
        layout, balance = self.facts["layouts"][self.layout], self._balance(self.device)
        block = layout["block"]
        missing = int((1 - self.memory.share) * max(1, self.model["experts"]) * layout["blocks"] * block)
        padding = (block - layout["kept"]) / block    # reads that bring any land in as large a part of the room
        least = 2 * self.io_depth * block // (padding or 1)
        fits = int(min(self.prefill.values()) * balance.sequential) if self.settings["accelerator"] else 0
        whole = 2 * block * layout["blocks"] if self.settings["accelerator"] else 0
        self.staging = -(-max(least, min(max(whole, min(missing, fits)), LARGEST_STAGING)) // MIB) * MIB
        lands = f", of which {padding:.0%} are for landing" if padding else ""
        self.why["staging"] = (f"two queues of reads take {least / MIB:.1f} MiB{lands}; a prefill reads ahead while a layer of "
                               f"{PREFILL_ROWS} rows computes: at most {fits / MIB:.1f} MiB of the {missing / MIB:.1f} MiB that "
                               f"a layer misses; its clusters have half of the room, one FFN in one takes {whole / MIB:.1f} MiB")
        self.chunk = 128
        self.why["prefill_chunk"] = "the engine's own: the cores do prefills"
        if self.settings["accelerator"]:
            reading, rate = missing / balance.sequential, min(self.prefill.values()) / PREFILL_ROWS
            self.chunk = next((rows for rows in (128, 256, 512) if rows * rate >= reading), 512)
            self.why["prefill_chunk"] = (f"every chunk reads what a layer misses, {_ms(reading)}, while {PREFILL_ROWS} rows of it take "
                                         f"{_ms(rate * PREFILL_ROWS)} to compute")
        firing = {rows: _firing_of(self.workload.batches[1], rows) for rows in (8, 16, 32)}
        self.dense_rows = next((rows for rows, share in firing.items() if share >= 0.75), 32)
        self.why["dense_rows"] = "share of the neurons that fire for at least one of the rows, if rows were independent: " + ", ".join(
            f"{rows}: {share:.0%}" for rows, share in firing.items()) + "; from three quarters on all are computed"

    def _prefill_seconds(self, units):
        """One layer's FFN and attention, all neurons, for a prefill of PREFILL_ROWS rows on these units alone."""
        curves = self.device.unit_curves(list(units), PREFILL_ROWS)
        model = self.model
        used = max(1, model["experts"])
        rows = 2 * (model["heads"] + model["kv_heads"]) * model["head_dim"]
        return used * (2 * curves["gate"](model["ffn"]) + curves["down"](model["ffn"])) + curves["dense"](rows) + curves["attention"]

    def choose_splits(self):
        """For each batch size the shares at which accelerator and cores meet."""
        balance, model, self.splits = self._balance(self.device), self.model, []
        self.balance = balance
        grains = self.grains = [hot * self.hot_cluster for hot in range(model["ffn"] // self.hot_cluster + 1)]
        most = int(self.memory.share * self.facts["layouts"][self.layout]["blocks"]) * self.facts["layouts"][self.layout]["per_block"]
        hot_choices = [hot for hot in grains if hot <= most] if self.settings["accelerator"] else [0]
        heads = [head / model["kv_heads"] for head in range(model["kv_heads"] + 1)] if self.settings["accelerator"] else [0.0]
        shares = [tenth / 20 for tenth in range(21)] if self.settings["accelerator"] else [0.0]
        within = CLIFF if self.memory.share < 1 else 0.001
        before = 0
        for batch in BATCHES:
            attention, attention_times, _ = best(heads, lambda share: balance.attention(batch, share))
            head, head_times, _ = best(shares, lambda share: balance.head(batch, share))
            workload = self.workload.batches[batch]
            workload.count_steps(list(dict.fromkeys((hot, workload.reach(hot, balance.cold_blocks(hot))[0]) for hot in hot_choices)))
            wanted, _, timed = best(hot_choices, lambda neurons: balance.ffn(batch, neurons), within)

            def with_growth(neurons):
                """What does not fit behind attention when the batch grows is shared out over the steps that it will last."""
                waits = max(0.0, balance.growth(batch, before, neurons) - attention_times.total) if before else 0.0
                return replace(times_of[neurons], total=times_of[neurons].total + waits / STEPS_OF_A_BATCH)

            times_of = dict(timed)
            hot = best(hot_choices, with_growth, within)[0]
            times = times_of[hot]
            self.table[batch] = timed
            self.splits.append({"batch": batch, "hot": hot, "wanted": wanted, "before": before, "stays": hot, "times": times,
                                "attention": attention, "attention_times": attention_times, "head": head, "head_times": head_times,
                                "growth": balance.growth(batch, before, hot)})
            before = hot

    def choose_by_layer(self, apart):
        """Where FFNs differ: as many neurons hot in all of them as with one share. Where nothing stays from one step to the next, no neuron
        is worth more than another."""
        for split in self.splits if apart else ():
            batch, mean = split["batch"], self.workload.batches[split["batch"]]
            reach = mean.reach(split["hot"], self.balance.cold_blocks(split["hot"]))
            if reach[0] == 0:
                continue
            tables = {}
            for ffn, workload in apart.items():
                workload.batches[batch].remembers = reach
                balance = self.balance.of_ffn(workload)
                tables[ffn] = [(hot, balance.ffn(batch, hot).total) for hot in self.grains]
            chosen = spread(tables, split["hot"] * len(apart))
            if len(set(chosen.values())) > 1:
                split["by_ffn"] = chosen
                split["gain"] = [total(tables, shares) / len(apart) for shares in (dict.fromkeys(apart, split["hot"]), chosen)]

    def choose_streams(self):
        """Hot neurons that are read for every step while attention runs leave their room to cold ones, or come on top of those that stay.
        As many as come within the attention (section 5), where the balance gains. Of a mixture they are known too late."""
        if not self.settings["accelerator"] or self.memory.share >= 1 or self.model["experts"]:
            return
        for split in self.splits:
            batch, hot, seconds = split["batch"], split["hot"], split["attention_times"].total
            split["bound"] = self.balance.most_streamed(seconds)
            most = split["bound"] // self.tile * self.tile
            if "by_ffn" in split or most == 0:
                continue
            choices = {(hot + more, streamed) for streamed in (most, most // 2 // self.tile * self.tile) if streamed
                       for more in (0, streamed) if streamed <= hot + more <= self.grains[-1]
                       and hot + more - streamed + streamed / self.model["layers"] <= self.memory.share * self.model["ffn"]}
            workload = self.workload.batches[batch]
            workload.count_steps([(own, workload.reach(own, self.balance.cold_blocks(own, streamed))[0])
                                  for own, streamed in sorted(choices)])
            timed = {(own, streamed): self.balance.ffn(batch, own, streamed) for own, streamed in sorted(choices)}
            chosen = min(timed, key=lambda choice: (timed[choice].total, choice), default=None)
            if chosen and timed[chosen].total < (1 - STREAM_GAIN) * split["times"].total:
                split["without"], split["times"] = split["times"], timed[chosen]
                split["hot"], split["streamed"] = chosen
                if self.hot_cluster % self.tile == 0 and any(neurons % self.hot_cluster for neurons in chosen):
                    self.hot_cluster = self.tile
                    self.why["cluster"] = "a tile, since what comes from flash within attention is no number of larger clusters"

    def result(self, device_tree, machine, source_of_profile):
        from .text import as_tree
        return as_tree(self, device_tree, machine, source_of_profile)


def _firing_of(batch, rows):
    """Share of the neurons that at least one of `rows` rows fires."""
    return sum(bucket["neurons"] * (1 - (1 - min(1.0, bucket["fired"] / bucket["neurons"])) ** rows)
               for bucket in batch.buckets) / batch.neurons


def _phases(layout):
    first = layout["first_part"]
    return f"{first} B and then {layout['block'] - first} B" if first else f"{layout['block']} B"


def _ms(seconds):
    return f"{1e3 * seconds:.2f} ms"
