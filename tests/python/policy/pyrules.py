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
