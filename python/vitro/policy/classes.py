"""Policies written in Python: classes with the interfaces of the engine's own rules (docs/guide/policies-in-python.md).

>>> class OldestFirst(vitro.Eviction):
...     def setup(self):
...         self.there = {}
...     def insert(self, block):
...         self.there[block] = True
...     def erase(self, block):
...         del self.there[block]
...     def victim(self, held):
...         return next((block for block in self.there if not held(block)), None)
>>> vitro.run("experiments/offload.yaml", policies=[OldestFirst], overrides={"engine.weights.eviction": "OldestFirst"})
"""
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

Choice = tuple[list[int], list[float]]  # of one row: experts by descending weight, and their weights


class Policy:
    """In an experiment a class is named by its `name`, or by what it is called. Its objects live for one run.

    Decisions are a class's own as long as they depend on what it was told and on nothing else: then host and sim decide alike, and equal
    runs are equal. `random` is seeded for it. `vitro.run(..., twice=True)` looks. What a class computes takes no simulated time: the device
    file says what a look-up and an admission cost (docs/reference/devices.md).
    """

    name: ClassVar[str]
    _kind: ClassVar[str] = ""
    _methods: ClassVar[tuple[str, ...]] = ()  # that are called where a class has one of its own
    _needs: ClassVar[str] = ""

    def setup(self) -> None:
        """Called once, before the first decision."""


class Eviction(Policy):
    """Which resident block goes when a cache is full, and which newcomer is not taken: `engine.weights.eviction`.

    A block is a neuron's weights, or a matrix of an expert: numbers from 0 to below `blocks`, layer after layer, `blocks // layers` in
    each. At most `capacity` are resident. A model of experts has a cache, and so an object, for each matrix of an expert.
    """

    blocks: int
    capacity: int
    layers: int
    window: float  # engine.weights.window, tokens; 0: none
    _kind = "eviction"
    _methods = ("insert", "touch", "touch_each", "erase", "newcomer", "victim_at_any_price", "weigh", "next_layer", "next_token")
    _needs = "victim"

    def insert(self, block: int) -> None:
        """`block` is resident from now on, and used now."""

    def touch(self, block: int) -> None:
        """`block`, which is resident, is used now."""

    def touch_each(self, blocks: list[int]) -> None:
        """The same for several, in that order. Replaces touch() for classes that have it: one call for a layer is faster."""
        for block in blocks:
            self.touch(block)

    def erase(self, block: int) -> None:
        """`block` is no longer resident."""

    def newcomer(self, block: int) -> None:
        """The next victim() makes room for this block: a class that remembers it can decline it."""

    def victim(self, held: Callable[[int], bool]) -> int | None:
        """-> the resident block that goes, which held(block) does not hold back; None: the newcomer is used and not kept."""
        raise NotImplementedError

    def victim_at_any_price(self, held: Callable[[int], bool]) -> int | None:
        """The same for a newcomer that has to stay. None: what the cache finds goes."""
        return self.victim(held)

    def weigh(self, block: int, weight: float) -> None:
        """A router gave the expert of this block that weight, resident or not."""

    def next_layer(self) -> None:
        """A layer is through."""

    def next_token(self) -> Iterable[int] | None:
        """A token is through. -> resident blocks that leave although there is room. Experts never do."""


class KvKeep(Policy):
    """Which full blocks of a sequence's keys and values stay in DRAM; the others go to flash: `engine.kv.keep`.

    A block has `engine.kv.block_tokens` positions. `kept_blocks` is what `engine.kv.dram_tokens` has room for, `sink_blocks` what
    `engine.kv.sinks` says. With follows_budget = True, kept_blocks is what the memory budget has room for.
    """

    kept_blocks: int
    sink_blocks: int
    follows_budget: ClassVar[bool] = False
    _kind = "keep"
    _methods = ("capacity", "forgets_unseen")
    _needs = "stays"

    def stays(self, block: int, full: int) -> bool:
        """Whether block `block` stays, of a sequence with `full` full ones. What leaves at some length is gone at any greater one."""
        raise NotImplementedError

    def capacity(self) -> int:
        """-> how many blocks stay for certain, of every sequence from which one has left: the file needs no places for them."""
        return 0

    def forgets_unseen(self) -> bool:
        """Whether blocks that a sliding window has passed are given up, instead of kept or written."""
        return True


class ExpertDrift(Policy):
    """What tiers of experts expect after a request, and so which experts are on which unit: `engine.ffn.experts.drift`."""

    _kind = "drift"
    _needs = "follow"

    def follow(self, expected: list[list[float]], observed: list[list[float]], overflowed: float, overlap: float,
               max_drop: float) -> Sequence[Sequence[float]] | None:
        """-> shares of the experts to expect from now on, by layer, each layer summing to 1; None: tiers stay as they are.

        expected, observed: such shares; a layer that nothing was seen of sums to 0. overflowed: share of (row, expert) pairs that found no
        room. overlap: of the hottest quarter of the experts, the share that was expected to be. max_drop: engine.ffn.experts.max_drop."""
        raise NotImplementedError


class ExpertPlacement(Policy):
    """Which experts of a layer share static graphs, and on which unit: `engine.ffn.experts.place`. Cores compute the others.

    Of the model `layers` layers have `experts` experts each, of `expert_bytes` bytes of weights. `units` run graphs, of `group` experts at
    most. An expert has a slice of a graph, whose rows are a multiple of `multiple`; a step of prefill has `chunk` rows."""

    layers: int
    experts: int
    expert_bytes: int
    units: int
    group: int
    multiple: int
    chunk: int
    _kind = "place"
    _needs = "place"

    def place(self, layer: int, expected: list[float], capacity: list[int], rooms: list[tuple[int, int]],
              rows: int) -> Iterable[tuple[Sequence[int], int] | tuple[Sequence[int], int, int | None]]:
        """-> the graphs of a layer: (experts, rows of each slice), or (experts, rows, unit). Asked for layer 0, 1, ... of those with
        experts, ahead of the first token and whenever tiers follow the load.

        expected: rows of a full step that each expert expects. capacity: rows of a slice that suits its tier. rooms: of each unit the
        graphs and bytes of weights that it takes in this layer and those behind it. rows: of all slices of the layer at most. All graphs
        of all layers name a unit, which then holds them for good; or none does, and the engine chooses units and what they hold."""
        raise NotImplementedError


class LookAhead(Policy):
    """Which experts of a layer are read before its router has chosen: `engine.weights.experts.ahead`. Asked in decoding alone.

    A layer has `experts` experts, of which a row uses `used`."""

    experts: int
    used: int
    _kind = "look_ahead"
    _methods = ("chose",)
    _needs = "want"

    def want(self, layer: int, guess: list[Choice]) -> Iterable[int]:
        """-> experts of `layer` to read ahead, as far as there is room. guess: what its router says, by row, to the input of the layer
        before."""
        raise NotImplementedError

    def chose(self, layer: int, choices: list[Choice]) -> None:
        """The router of `layer` chose these for the rows of a step."""


KINDS: tuple[Any, ...] = (Eviction, KvKeep, ExpertDrift, LookAhead, ExpertPlacement)
