"""How long a row of pieces of work will take yet."""
import math
import time
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples, without their whole part, fill the interval to 1 evenly, however many there are


class Remaining:
    """Of what is done since the first report, whatever was done before it. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin: tuple[float, int] | None = None
        self._last = 0

    def seconds(self, done: int, total: int) -> float | None:
        """Told that `done` of `total` are through -> the estimate, None before anything has ended. It takes what is left to go on at the
        mean pace so far, which holds for several workers, too."""
        now = self._clock()
        if self._begin is None or done < self._last:  # the first of a count
            self._begin = (now, done)
        self._last = done
        began, before = self._begin
        return None if done == before else (now - began) / (done - before) * (total - done)

    def text(self, done: int, total: int) -> str:
        """"about 31 s left", or nothing where there is no estimate."""
        left = self.seconds(done, total)
        if left is None or done >= total:
            return ""
        if left < 300:
            return f"about {left:.0f} s left"
        return f"about {left / 60:.0f} min left" if left < 6000 else f"about {left / 3600:.1f} h left"


def spread(count: int) -> list[int]:
    """An order of 0 to count - 1 of which any first part is spread over the whole: of a grid whose pieces get larger along a key, a tenth
    has small and large ones, so that its mean pace is that of all."""
    parts = [step * _GOLDEN % 1 for step in range(count)]
    rank = {step: place for place, step in enumerate(sorted(range(count), key=parts.__getitem__))}
    return [rank[step] for step in range(count)]
