"""How long a layer takes when an accelerator has some of it: two sides that meet, one memory, one queue of reads.

Nothing here simulates a run. Times are those of probes (plan_probes), numbers of neurons those of the profile (plan_workload).
"""
import copy
from dataclasses import dataclass

from .probes import Curve

POLICY_CORE = "cpu0"  # where decisions are made, on both machines


@dataclass(frozen=True)
class Memory:
    """What of DRAM the FFNs have, in bytes of all layers."""
    share: float      # of the FFN bytes that may stay
    ffn: int          # bytes of all FFNs in DRAM, where they have no padding
    fixed: int        # bytes of everything else that stays
    why: str = ""


@dataclass(frozen=True)
class Times:
    """Of one layer or of the head, in seconds; of each side beside the other. total: what they make together."""
    total: float
    accelerator: float = 0.0
    cores: float = 0.0
    reads: float = 0.0
    shared: float = 0.0   # in which both sides read from memory at once
    missing: float = 0.0  # blocks read for a step, of one layer


class Balance:
    alone = False  # of one FFN, not of the mean

    def __init__(self, device, workload, memory, *, layout, io_depth, cluster_neurons):
        self.device, self.workload, self.memory = device, workload, memory
        self.layout = device.facts["layouts"][layout]
        self.row = device.facts["layouts"]["bundles"]["row"]  # scales included, wherever they lie
        self.io_depth, self.cluster_neurons = io_depth, cluster_neurons
        self.model = device.facts["model"]
        self.experts = max(1, self.model["experts"])
        block, first = self.layout["block"], self.layout["first_part"]
        # Seconds by the number of blocks of a read: neighbours that are missing are read together. Two phases read single ones.
        self.read_s = Curve([(blocks, self._read(blocks * block)[0]) for blocks in ((1,) if first else (1, 2, 4, 16))])
        self.first_s = self._read(first)[0] if first else 0.0
        self.rest_s = self._read(block - first)[0] if first else 0.0
        self.latency = device.bench.read(device.io_core, self.layout["block"], depth=1, range_bytes=device.range_bytes)[1]
        self.issue_s = device.bench.issue(device.io_core, self.io_depth)
        self.sequential = self._sequential()

    def of_ffn(self, workload):
        """As if all FFNs were like this one; of a mixture, as if experts were chosen as often."""
        balance = copy.copy(self)
        balance.workload, balance.alone = workload, True
        return balance

    def _read(self, size):
        return self.device.bench.read(self.device.io_core, size, depth=self.io_depth, range_bytes=self.device.range_bytes)

    def _sequential(self):
        size = 512 * 1024
        return size / self.device.bench.read(self.device.io_core, size, depth=self.io_depth, pattern="sequential",
                                             range_bytes=self.device.range_bytes)[0]

    def cold_blocks(self, hot, streamed=0):
        """Room for cold blocks in one FFN when the first `hot` neurons of each stay but for the last `streamed` of them, which are read for
        every step into a buffer that all FFNs share."""
        blocks = self.layout["blocks"]
        buffer = streamed / self.model["layers"] if streamed else 0.0
        return max(0.0, self.memory.share * blocks - (hot - streamed + buffer) / self.layout["per_block"])

    def most_streamed(self, seconds):
        """Hot neurons of an FFN that come from flash within so many seconds of attention: the bound of PowerInfer-2, section 5. Where reads
        bring padding, the core that reads copies what lands as well, all by itself."""
        block = self.layout["block"] / self.sequential
        if self.layout["kept"] < self.layout["block"]:
            rows = self.model["ffn"]  # the rate of many: a copy is one call of what has landed
            copied = 2 * self.layout["kept"] / self.row
            block += len(self.device.cores) * self.device.core[1]["gate"](rows) / rows * copied
        return int(seconds / block * self.layout["per_block"])

    def reads(self, missed, completed):
        """-> (seconds of a queue kept full, reads) for [(blocks that miss, blocks there)]. With a share p missing, 1/(1 - p) blocks
        in a row do, up to those of a cluster; in two phases Up and Down are read only of those that are `completed`, a share."""
        if self.layout["first_part"]:
            missing = sum(blocks for blocks, _ in missed)
            return missing * (self.first_s + completed * self.rest_s), missing * (1 + completed)
        seconds = reads = 0.0
        for missing, blocks in missed:
            if missing <= 0:
                continue
            run = min(1 / max(1e-6, 1 - missing / blocks), max(1.0, self.cluster_neurons / self.layout["per_block"]))
            seconds += missing / run * self.read_s(run)
            reads += missing / run
        return seconds, reads

    def ffn(self, batch, hot, streamed=0):
        """Times of the FFN of one layer with `hot` neurons of each FFN on the accelerator; `streamed` of them are read behind attention."""
        device, workload, neurons = self.device, self.workload.batches[batch], self.model["ffn"]
        core, row = device.core[self._rows(batch)], self.row
        named, fired = workload.cold(hot, "named"), workload.cold(hot, "fired")
        used = self._used(batch)                      # FFNs of the layer that a step uses
        missed = workload.misses(hot, self.cold_blocks(hot, streamed))
        named, fired = named * self.experts, fired * self.experts
        accelerator = 0.0
        if hot:
            fast = device.fast[self._rows(batch)]
            accelerator = used * (device.launch + 2 * fast["gate"](hot) + fast["down"](hot))
        predict, bytes_predicted = 0.0, 0
        if "scores" in core:
            rank, inputs = self.model["predictor_rank"], 1 if batch == 1 else used  # a token alone has one input for all its experts
            predict = 2 * device.wake + inputs * core["rank"](rank) + used * core["scores"](neurons - hot)
            bytes_predicted = rank * (inputs * self.model["width"] + used * (neurons - hot)) * row / self.model["width"]
        clusters = -(-named // self.cluster_neurons)
        work = core["gate"](named) + core["gate"](fired) + core["down"](fired) + 2 * clusters * device.submit / len(device.cores)
        work += device.wake                           # adding up
        capacity = self.cold_blocks(hot, streamed)
        reads, count = (self.experts * part for part in self.reads(missed, workload.completed(hot, capacity) if missed else 0.0))
        missing = self.experts * sum(blocks for blocks, _ in missed)
        copied = 0.0                                  # rows read and written by the cores, where reads bring padding
        if self.layout["kept"] < self.layout["block"]:
            copied = 2 * missing * self.layout["kept"] / row
            work += core["gate"](copied)
        # Deciding and issuing go on beside computing, and take the time of the cores that do them.
        decides = device.deciding(named / self.layout["per_block"], missing, clusters) if missing else 0.0
        issues = count * self.issue_s
        work += sum(time for core_name, time in ((POLICY_CORE, decides), (device.io_core, issues))
                    if core_name in device.cores) / len(device.cores)
        policy = decides + (issues if device.io_core == POLICY_CORE else 0.0)
        streamed = bytes_predicted + (named + 2 * fired + copied) * row
        waits, core_waits, shared = self._share_memory(accelerator, 3 * hot * used * row, streamed)
        accelerator += waits
        predict += core_waits * bytes_predicted / streamed if streamed else 0.0
        work += core_waits * (1 - bytes_predicted / streamed) if streamed else 0.0
        tail = self.latency * (2 if self.layout["first_part"] else 1) if missing > 0.5 else 0.0
        steps = workload.unevenness(hot, capacity) if missing > 0.5 else [1.0]
        total = sum(max(accelerator, predict + max(work, reads * more, policy) + tail) for more in steps) / len(steps)
        return Times(total, accelerator, predict + work, reads, shared, missing)

    def _share_memory(self, accelerator, fast_bytes, core_bytes):
        """What the accelerator, which takes so many seconds alone, and the cores lose because they read at the same time: as long as
        both do, each has what memory gives it beside the other; then the slower side goes on alone. -> (seconds, seconds, for how long)."""
        if not accelerator or not core_bytes or not self.device.fast_streams:
            return 0.0, 0.0, 0.0
        (core_alone, core_beside), (_, fast_beside) = self.device.core_streams, self.device.fast_streams
        wants = fast_bytes / accelerator              # one that is bound by computing leaves more to the cores
        slower = max(1.0, wants / fast_beside)
        core_slower = max(1.0, core_alone / (core_beside + max(0.0, fast_beside - wants)))
        shared = min(accelerator * slower, core_bytes / core_alone * core_slower)
        return shared * (1 - 1 / slower), shared * (1 - 1 / core_slower), shared

    def _used(self, batch):
        """FFNs of a layer that at least one row of a step uses."""
        if not self.model["experts"]:
            return 1.0
        return self.experts * (1 - (1 - self._popularity(batch)) ** batch)

    def _popularity(self, batch):
        """How often a row of a step meets an expert."""
        if self.alone:
            return min(1.0, self.workload.batches[batch].rows / batch)
        return self.model["experts_used"] / self.experts

    def _rows(self, batch):
        """Of an FFN that is used: experts share them out."""
        if not self.model["experts"]:
            return batch
        used = self._used(batch)
        return max(1, round(batch * self._popularity(batch) * self.experts / used)) if used else 1

    def attention(self, batch, share):
        """Of one layer: projections and attention, `share` of the heads on the accelerator, if it can read what is kept."""
        device, model = self.device, self.model
        inner = model["heads"] * model["head_dim"]
        rows = inner + 2 * model["kv_heads"] * model["head_dim"] + model["width"]
        core, heads = device.core[batch], 0.0 if device.heads_on_cores else share
        cores = 2 * device.wake + core["dense"](rows * (1 - share)) + (1 - heads) * core["attention"] / len(device.cores)
        accelerator = 0.0
        if share > 0:
            fast = device.fast[batch]
            accelerator = 2 * device.launch + fast["dense"](rows * share) + heads * fast["attention"]
        return self._meet(accelerator, cores, rows, share)

    def head(self, batch, share):
        device, rows = self.device, self.model["vocab"]
        cores = device.wake + device.core[batch]["head"](rows * (1 - share))
        accelerator = device.launch + device.fast[batch]["head"](rows * share) if share > 0 else 0.0
        return self._meet(accelerator, cores, rows, share)

    def _meet(self, accelerator, cores, rows, share):
        waits, core_waits, shared = self._share_memory(accelerator, rows * share * self.row, rows * (1 - share) * self.row)
        return Times(max(accelerator + waits, cores + core_waits), accelerator + waits, cores + core_waits, 0.0, shared)

    def growth(self, batch, before, hot):
        """Seconds of reading, of one layer, when `before` neurons are hot and a step of `batch` rows wants `hot` of them."""
        missing = self.experts * self.workload.batches[batch].missing(before, hot, before, self.cold_blocks(before))
        return missing * self.layout["block"] / self.sequential

    def step(self, ffn, attention, head):
        """Seconds of one step of all rows."""
        return self.model["layers"] * (ffn.total + attention.total) + head.total


def best(candidates, time, within=0.001):
    """The candidate with the least time; of those within so much of it the smallest one."""
    timed = [(candidate, time(candidate)) for candidate in sorted(candidates)]
    least = min(times.total for _, times in timed)
    return next((candidate, times, timed) for candidate, times in timed if times.total <= (1 + within) * least)
