"""The workload as a planner sees it: which neurons fire at which batch size, and what a cache of any size would miss."""
import json
from bisect import bisect_right

from ..base import native
from .settings import BATCHES, PROFILE_TOKENS

_ROUNDS = 32  # of steps until what stays in a cache that is smaller than one step does not change any more
_RUNS = 32    # of steps that miss about as much
LIKELY = 0.5  # a neuron that fires in more than half of the steps is called hot in the classification


class Workload:
    """Mean FFN of a model. All numbers are per FFN and step, where experts count with the share of steps that use them."""

    def __init__(self, layers, count=None, recorded=False):
        """layers: as the engine's plan_profile answers, one entry per layer that was drawn; alike in shape. count(batch, limits): (what
        each step misses, what it reads to the end) by limit."""
        self.batches = {}
        for index, batch in enumerate(layers[0]):
            size = batch["batch"]
            own = None if count is None else lambda limits, size=size: count(size, limits)
            self.batches[size] = BatchWorkload([layer[index] for layer in layers], own, recorded)


class BatchWorkload:
    def __init__(self, layers, count=None, recorded=False):
        self.count, self.counted, self.recorded = count, {}, recorded
        self.remembers = None  # of an FFN beside others: what reach() says of the cache that all of them share
        self.rows = _mean(layer["rows"] for layer in layers)
        self.buckets = []
        for parts in zip(*(layer["buckets"] for layer in layers)):
            mean = {key: _mean(part[key] for part in parts) for key in ("named", "fired", "mostly", "named_blocks")}
            series = {key: [_mean(values) for values in zip(*(part[key] for part in parts))] for key in ("reuse", "used_within")}
            self.buckets.append({key: parts[0][key] for key in ("first", "neurons", "blocks")} | mean | series)
        self.neurons = sum(bucket["neurons"] for bucket in self.buckets)
        self.blocks = sum(bucket["blocks"] for bucket in self.buckets)

    def _cold(self, hot):
        """-> [(bucket, the share of it that lies behind the first `hot` neurons)]."""
        for bucket in self.buckets:
            share = min(1.0, max(0.0, (bucket["first"] + bucket["neurons"] - hot) / bucket["neurons"]))
            if share > 0:
                yield bucket, share

    def cold(self, hot, key):
        """Sum of `named`, `fired` or `named_blocks` over the neurons behind the first `hot`."""
        return sum(share * bucket[key] for bucket, share in self._cold(hot))

    def reach(self, hot, capacity):
        """How many steps back a least-recently-used cache of `capacity` blocks for the cold neurons remembers -> (steps, the share
        that stays all the same of what was not used for longer than the profile looks back)."""
        if self.remembers is not None:
            return self.remembers
        cold = list(self._cold(hot))
        longest = len(self.buckets[0]["used_within"]) - 1

        def size(steps):
            return sum(share * bucket["used_within"][steps] for bucket, share in cold)
        steps = max(0, bisect_right(range(longest + 1), capacity + 1e-9, key=size) - 1)
        if steps < longest:
            return steps, 0.0
        rest = sum(share * bucket["blocks"] for bucket, share in cold) - size(longest)
        return steps, min(1.0, (capacity - size(longest)) / rest) if rest > 1e-9 else 1.0

    def misses(self, hot, capacity):
        """What a step reads with room for `capacity` blocks of cold neurons -> [(blocks that miss, blocks there)], bucket by
        bucket. Between two uses d steps apart a cache sees what d steps use: they hit when that fits."""
        steps, older = self.reach(hot, capacity)
        if steps == 0:
            resident = self._part_of_a_step(hot, capacity)
            return [(share * bucket["named_blocks"] - held * _again(bucket), share * bucket["blocks"])
                    for (bucket, share), held in zip(self._cold(hot), resident)]
        missed = []
        for bucket, share in self._cold(hot):
            hits = sum(bucket["reuse"][1:steps + 1]) + older * bucket["reuse"][0]
            missed.append((share * max(0.0, bucket["named_blocks"] - hits), share * bucket["blocks"]))
        return missed

    def unevenness(self, hot, capacity):
        """-> what each step misses over what the mean step does, least first: an expert that was away for long misses much at once. An
        accelerator beside reads waits for those of its own step."""
        return self._counted(hot, capacity)[0]

    def completed(self, hot, capacity):
        """-> of the blocks that miss, how many are read to the end, at once or in a later step: where a miss brings a silent neuron's Gate
        row alone, the rest comes when it fires."""
        share = self._counted(hot, capacity)[1]
        if share is None:
            named = self.cold(hot, "named")
            return self.cold(hot, "fired") / named if named else 0.0
        return share

    def _counted(self, hot, capacity):
        limit = (int(hot), self.reach(hot, capacity)[0])
        if self.count is None:
            return [1.0], None
        if limit not in self.counted:
            self.count_steps([limit])
        return self.counted[limit]

    def count_steps(self, limits):
        """Many limits (hot, reach) are counted in one go over the draws."""
        for limit, (missing, completed) in zip(limits, self.count(limits) if self.count else ()):
            mean = sum(missing) / len(missing)
            self.counted[limit] = ((_thinned([step / mean for step in sorted(missing)]), sum(completed) / sum(missing)) if mean > 0
                                   else ([1.0], None))

    def _part_of_a_step(self, hot, capacity):
        """-> blocks of each bucket that stay when those of one step do not fit. Under `step_lru` what the last step
        used is displaced by nothing but what comes into the place of the silent, hottest first: the point at which both are equal."""
        named = [(share * bucket["named_blocks"], _again(bucket)) for bucket, share in self._cold(hot)]
        held = [0.0] * len(named)
        for _ in range(_ROUNDS):
            free = capacity - sum(there * again for there, (_, again) in zip(held, named))
            for i, (wanted, again) in enumerate(named):
                stays = held[i] * again
                held[i] = stays + max(0.0, min(free, wanted - stays))
                free -= held[i] - stays
        return held

    def missing(self, first, end, hot, capacity):
        """Of the blocks of neurons first to end, those not in such a cache: what a growing hot region has to read."""
        steps, older = self.reach(hot, capacity)
        resident = self._part_of_a_step(hot, capacity) if steps == 0 else []
        held = {bucket["first"]: there / share for (bucket, share), there in zip(self._cold(hot), resident)}
        total = 0.0
        for bucket in self.buckets:
            low, high = max(first, bucket["first"]), min(end, bucket["first"] + bucket["neurons"])
            if high <= low:
                continue
            within = bucket["used_within"]
            there = held.get(bucket["first"], 0.0) if steps == 0 else within[steps] + older * (bucket["blocks"] - within[-1])
            total += (high - low) / bucket["neurons"] * max(0.0, bucket["blocks"] - there)
        return total

    def classes(self):
        """{"firing": mean share that fires in a step, "hot": share of the neurons that fire in most of the steps that use the FFN}. Of a
        recording neuron by neuron, over all of its steps; of draws, which are short, by the means of runs of like neurons."""
        use = min(1.0, self.rows) or 1.0
        hot = sum(bucket["mostly"] if self.recorded else bucket["neurons"] * (bucket["fired"] / bucket["neurons"] > LIKELY * use)
                  for bucket in self.buckets)
        return {"firing": sum(bucket["fired"] for bucket in self.buckets) / self.neurons, "hot": hot / self.neurons}


def load(facts, **source):
    """layout; profile: a dict as `engine.profile` has it; or recording: a path. -> the mean FFN."""
    request = _request(facts, **source)
    if "recording" not in request:
        last = facts["model"]["layers"] - 1
        request["layers"] = sorted({0, last // 3, 2 * last // 3, last}) if _kinds(request["profile"]) > 1 else [0]

    def count(batch, limits):
        pairs = [{"hot": hot, "reach": reach} for hot, reach in limits]
        layers = native.call("plan_profile", json.dumps(request | {"batches": [batch], "limits": pairs}))
        return [tuple([step for (only,) in layers for step in only[key][i]] for key in ("missing", "completed"))
                for i in range(len(limits))]

    return Workload(native.call("plan_profile", json.dumps(request)), count, "recording" in request)


def load_apart(facts, experts=False, **source):
    """-> {(layer, expert): its own workload}, expert -1 where it stands for all of a layer; {} where nothing tells FFNs apart.
    experts: of a recorded mixture each by itself. Which expert of a drawn one is popular differs from seed to seed: they are alike here."""
    request, layers = _request(facts, **source), facts["model"]["layers"]
    if "recording" in request:
        found = native.call("plan_profile", json.dumps(request | {"apart": True}))
        parts = {}
        for ffn in found:
            parts.setdefault((ffn["layer"], ffn["expert"] if experts else -1), []).append(ffn["batches"])
        return {key: Workload(batches) for key, batches in parts.items()} if len(parts) > 1 else {}
    kinds = min(layers, _kinds(request["profile"]))
    if kinds < 2:
        return {}
    drawn = native.call("plan_profile", json.dumps(request | {"layers": list(range(kinds))}))
    return {(layer, -1): Workload([drawn[min(layer, kinds - 1)]]) for layer in range(layers)}


def _kinds(profile):
    return len(profile["layers"]) if isinstance(profile.get("layers"), list) else 1


def _request(facts, *, layout, profile=None, recording=None, hottest_first=False, keep="named", seed=1):
    model = facts["model"]
    predicts = model["predictor_rank"] > 0
    keep_named = predicts and keep == "named"  # as the engine keeps them, in two phases the Gate row alone
    request = {"neurons": model["ffn"], "per_block": facts["layouts"][layout]["per_block"], "tokens": PROFILE_TOKENS,
               "batches": list(BATCHES), "predicts": predicts, "keep_named": keep_named, "seed": seed}
    if recording is not None:
        return request | {"recording": str(recording), "hottest_first": hottest_first}
    return request | {"profile": profile, "experts": model["experts"], "experts_used": model["experts_used"]}


def _again(bucket):
    """Chance that a block of the bucket which was named is named in the next step."""
    return bucket["reuse"][1] / bucket["named_blocks"] if bucket["named_blocks"] else 0.0


def _thinned(values):
    """Means of runs of like ones."""
    runs = min(_RUNS, len(values))
    edges = [i * len(values) // runs for i in range(runs + 1)]
    return [_mean(values[first:end]) for first, end in zip(edges, edges[1:])]


def _mean(values):
    values = list(values)
    return sum(values) / len(values)
