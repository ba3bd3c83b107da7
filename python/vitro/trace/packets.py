"""A file of Perfetto's format in bounded pieces. It is one protobuf message, `Trace`, whose repeated field 1 are the packets; pieces of
whole fields are such messages themselves."""
from collections.abc import Iterator
from pathlib import Path

from ..errors import ConfigError

PIECE = 1 << 20          # bytes that are read together
MOST_PACKET = 64 << 20   # bytes of one field; Perfetto's writers make packets of some kilobytes
_PACKET = 0x0a           # field 1, length-delimited
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def pieces(path: Path, piece: int = PIECE) -> Iterator[tuple[int, bytes, list[int]]]:
    """-> (offset in the file, bytes, where each field in them begins). A piece has about `piece` bytes; more, if one field has more.

    Raises ConfigError, with file and offset, for a field that ends beyond the file, that has more than 64 MiB, or that is none.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        at, held, wanted = 0, b"", piece
        while more := file.read(wanted):
            held += more
            begins, end, missing = _fields(path, at, held, size)
            if begins:
                yield at, held[:end], begins
            at, held, wanted = at + end, held[end:], max(piece, missing)
        if held:
            raise broken(path, at, f"the file ends in a field (was it cut short?)")


def broken(path: Path, offset: int, problem: str) -> ConfigError:
    return ConfigError(f"{path}: is not a Perfetto trace: at byte {offset}: {problem}")


def _fields(path: Path, at: int, held: bytes, size: int) -> tuple[list[int], int, int]:
    """-> (where the whole fields of `held` begin, where the last of them ends, bytes that the next one lacks).

    at: of `held` in the file."""
    begins: list[int] = []
    begin, count = 0, len(held)
    while begin + 2 <= count:
        if held[begin] == _PACKET and held[begin + 1] < 0x80:  # nearly all are
            end = begin + 2 + held[begin + 1]
        else:
            body = _body(path, at, held, begin)
            if body is None:
                break
            end = body
        if at + end > size:
            raise broken(path, at + begin, f"a field that ends at byte {at + end} of a file of {size} bytes (was it cut short?)")
        if end - begin > MOST_PACKET:
            raise broken(path, at + begin, f"a field of {end - begin} bytes (expected at most {MOST_PACKET})")
        if end > count:
            return begins, begin, end - count
        begins.append(begin)
        begin = end
    return begins, begin, 0


def _body(path: Path, at: int, held: bytes, begin: int) -> int | None:
    """-> where the field that begins at `begin` ends; None where its tag or length is not whole."""
    tag = _varint(path, at, held, begin)
    if tag is None:
        return None
    key, reach = tag
    if key >> 3 == 0 or key >> 32 or key & 7 not in (_VARINT, _FIXED64, _LENGTH, _FIXED32):
        raise broken(path, at + begin, f"field {key >> 3} of wire type {key & 7} (expected packets, field 1 of wire type {_LENGTH})")
    if key & 7 == _FIXED64:
        return reach + 8
    if key & 7 == _FIXED32:
        return reach + 4
    value = _varint(path, at, held, reach)
    if value is None:
        return None
    return value[1] + (value[0] if key & 7 == _LENGTH else 0)


def _varint(path: Path, at: int, held: bytes, begin: int) -> tuple[int, int] | None:
    """-> (number, where it ends); None where it is not whole."""
    value = 0
    for count, byte in enumerate(held[begin:begin + 10]):
        value |= (byte & 0x7f) << 7 * count
        if byte < 0x80:
            if value >> 64:
                break
            return value, begin + count + 1
    if len(held) - begin < 10:
        return None
    raise broken(path, at + begin, "a number of more than 64 bits")
