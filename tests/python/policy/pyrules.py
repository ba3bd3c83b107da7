"""Rules for tests: the engine's own ones once more, and ones with faults."""
import collections

import vitro


class PyLru(vitro.Eviction):
    """least recently used"""

    name = "py_lru"

    def setup(self):
        self.order = collections.OrderedDict()

    def insert(self, block):
        self.order[block] = None

    def touch(self, block):
        self.order.move_to_end(block)

    def erase(self, block):
        del self.order[block]

    def victim(self, held):
        return next((block for block in self.order if not held(block)), None)


class PyNone(vitro.Eviction):
    name = "py_none"

    def victim(self, held):
        return None


class Tokens(PyLru):
    """lets everything go after each token"""

    name = "tokens"

    def next_token(self):
        return list(self.order)


class Pinned(PyLru):
    name = "pinned"

    def victim(self, held):
        return next((block for block in self.order if held(block)), None)


class Absent(PyLru):
    name = "absent"

    def victim(self, held):
        return next(block for block in range(self.blocks) if block not in self.order)


class Odd(PyLru):
    name = "odd"
    answer = "seven"

    def victim(self, held):
        return self.answer


class Twice(PyLru):
    name = "twice"

    def next_token(self):
        return [next(iter(self.order))] * 2


class Raises(PyLru):
    name = "raises"

    def victim(self, held):
        return self.no_such_thing


class Signature(PyLru):
    name = "signature"

    def victim(self):
        return None


class Late(PyLru):
    """keeps what it may only ask while it decides"""

    name = "late"

    def victim(self, held):
        self.held = held
        return super().victim(held)

    def next_layer(self):
        if hasattr(self, "held"):
            self.held(0)


class Moody(PyLru):
    """decides by the time of day"""

    name = "moody"

    def victim(self, held):
        import time
        free = [block for block in self.order if not held(block)]
        return free[time.perf_counter_ns() // 100 % len(free)] if free else None


class Picky(PyLru):
    name = "picky"

    def setup(self):
        raise vitro.ConfigError("engine.weights: this rule wants more")


class Recent(vitro.KvKeep):
    """the last blocks"""

    name = "py_recent"

    def stays(self, block, full):
        return full - block <= self.kept_blocks


class Maybe(vitro.KvKeep):
    name = "maybe"

    def stays(self, block, full):
        return None


class Much(Recent):
    name = "much"

    def capacity(self):
        return self.kept_blocks + 1


class Lies(Recent):
    name = "lies"

    def stays(self, block, full):
        return False

    def capacity(self):
        return self.kept_blocks


class Sure(Recent):
    """answers yes where a number is asked for"""

    name = "sure"

    def capacity(self):
        return True


class Room(vitro.KvKeep):
    """as the engine's own `budget`"""

    name = "py_budget"
    follows_budget = True

    def stays(self, block, full):
        return block < self.kept_blocks

    def capacity(self):
        return self.kept_blocks


class Follow(vitro.ExpertDrift):
    """as the engine's own"""

    name = "py_follow"

    def follow(self, expected, observed, overflowed, overlap, max_drop):
        if overflowed <= max_drop and overlap > 0.5:
            return None
        return [[(e + o) / 2 if sum(seen) else e for e, o in zip(layer, seen)] for layer, seen in zip(expected, observed)]


class HalfShares(vitro.ExpertDrift):
    name = "half_shares"

    def follow(self, expected, observed, overflowed, overlap, max_drop):
        return [[share / 2 for share in layer] for layer in expected]


class Ahead(vitro.LookAhead):
    """what the router names"""

    name = "py_router"

    def want(self, layer, guess):
        return {expert for ids, _ in guess for expert in ids}


class LastChosen(vitro.LookAhead):
    """what the layer's router chose for the last token"""

    name = "last_chosen"

    def setup(self):
        self.last = {}

    def chose(self, layer, choices):
        self.last[layer] = [expert for ids, weights in choices for expert in ids]

    def want(self, layer, guess):
        return self.last.get(layer, [])


class Nobody(vitro.LookAhead):
    name = "nobody"

    def want(self, layer, guess):
        return [self.experts]


class Hottest(vitro.ExpertPlacement):
    """as the engine's own"""

    name = "py_hottest"

    def place(self, layer, expected, capacity, rooms, rows):
        hot = sorted((e for e in range(self.experts) if expected[e] > 0), key=lambda e: -expected[e])
        size = max(1, min(self.group, -(-len(hot) // self.units)))
        left = [min(graphs, held // (size * self.expert_bytes)) // (self.layers - layer) for graphs, held in rooms]
        graphs, used = [], 0
        for first in range(0, len(hot), size):
            experts, unit = hot[first:first + size], left.index(max(left))
            most = max(capacity[e] for e in experts)
            used += most * len(experts)
            if not left[unit] or used > rows:
                break
            left[unit] -= 1
            graphs.append((experts, most, unit))
        return graphs


class Pairs(vitro.ExpertPlacement):
    """two by two, by number; units are the engine's to choose"""

    name = "py_pairs"

    def place(self, layer, expected, capacity, rooms, rows):
        for e in range(0, self.experts - 1, 2):
            yield (e, e + 1), max(capacity[e:e + 2])


class PlacesAny(vitro.ExpertPlacement):
    """what `answer` says of the last layer"""

    name = "places_any"
    answer = None

    def place(self, layer, expected, capacity, rooms, rows):
        return self.answer if layer == self.layers - 1 else []


class PlaceRaises(vitro.ExpertPlacement):
    name = "place_raises"

    def place(self, layer, expected, capacity, rooms, rows):
        return self.no_such_thing


class PlaceMoody(vitro.ExpertPlacement):
    """decides by the time of day"""

    name = "place_moody"

    def place(self, layer, expected, capacity, rooms, rows):
        import time
        experts = time.perf_counter_ns() // 100 % self.experts
        return [([e], max(capacity)) for e in range(experts)]
