"""The events of a trace in JSON, one by one, from a file in bounded pieces: an object whose `traceEvents` is a list, or that list."""
import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PIECE = 4 << 20         # bytes that are read together
MOST_VALUE = 64 << 20   # characters of one event
_SPACE = " \t\n\r"
_BEHIND = "},\n"  # an event that another one follows on the next line
_GOES_ON = re.compile(r"(\.|[eE][+-]?)?")  # behind a number at the end of a piece
Take = Callable[[str], bool]  # of whole lines of a list, each with the comma behind its value; False: it leaves them
_decode = json.JSONDecoder().raw_decode


def events(path: Path, take: Take | None = None) -> Iterator[Any]:
    """Those that `take` does not take, which is asked first.

    Raises ValueError for what is no JSON, for an object without `traceEvents`, and where text follows the end."""
    with path.open("rb") as file:
        text = _Text(file)
        if text.next() == "[":
            yield from text.items(take)
        else:
            yield from _of_object(text, take)
        if text.peek():
            raise ValueError(f"{text.peek()!r} follows the end")


def _of_object(text: "_Text", take: Take | None) -> Iterator[Any]:
    if text.taken != "{":
        raise ValueError(f"begins with {text.taken!r} (expected an object or a list)")
    found = False
    if text.peek() == "}":
        text.next()
    else:
        while True:
            key = text.value()
            if not isinstance(key, str) or text.next() != ":":
                raise ValueError(f"{key!r} is no key")
            if key == "traceEvents":
                found = True
                if text.next() != "[":
                    raise ValueError("traceEvents is no list")
                yield from text.items(take)
            else:
                text.value()
            if text.next() != ",":
                break
        if text.taken != "}":
            raise ValueError(f"{text.taken!r} where , or }} is expected")
    if not found:
        raise KeyError("traceEvents")


class _Text:
    """What has been read and not been taken."""

    def __init__(self, file: Any) -> None:
        self._file, self._bytes = file, codecs.getincrementaldecoder("utf-8")()
        self._held, self._at, self._ended = "", 0, False
        self._left = False  # by those who take lines
        self.taken = ""  # what next() gave last

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            while self._at < len(self._held):
                if self._held[self._at] not in _SPACE:
                    return self._held[self._at]
                self._at += 1
            if not self._more(PIECE):
                return ""

    def next(self) -> str:
        self.taken = self.peek()
        self._at += 1
        return self.taken

    def value(self) -> Any:
        """One value, which is held as a whole; a number at the end of what is there may go on: 2 of 2.5."""
        self.peek()
        wanted = PIECE
        while True:
            try:
                value, end = _decode(self._held, self._at)
                if self._ended or not (_GOES_ON.fullmatch(self._held, end) if isinstance(value, (int, float)) else end == len(self._held)):
                    self._at = end
                    return value
            except ValueError:
                if self._ended or len(self._held) - self._at > MOST_VALUE:
                    raise
            self._more(wanted)
            wanted *= 2

    def items(self, take: Take | None) -> Iterator[Any]:
        """Those of a list, behind its bracket, that are not taken."""
        if self.peek() == "]":
            self.next()
            return
        while True:
            if take is not None:
                self._offer_lines(take)
            yield self.value()
            if self.next() != ",":
                break
        if self.taken != "]":
            raise ValueError(f"{self.taken!r} where , or ] is expected")

    def _offer_lines(self, take: Take) -> None:
        """What is held of whole lines is taken together, or value by value: then nobody is asked again before more has been read."""
        self.peek()
        if self._left:
            return
        last = self._held.rfind(_BEHIND, self._at)
        end = last + len(_BEHIND)
        self._left = last < 0 or not take(self._held[self._at:end])
        if not self._left:
            self._at = end

    def _more(self, wanted: int) -> bool:
        read = self._file.read(wanted)
        self._held, self._at = self._held[self._at:] + self._bytes.decode(read, final=not read), 0
        self._ended, self._left = not read, False
        return not self._ended
