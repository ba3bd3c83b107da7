"""A trace's file in bounded pieces, and what damaged files say."""
import tracemalloc

import pytest
from packet_bytes import begin, field, packet, varint
from vitro.errors import ConfigError
from vitro.trace import packets


def cut(tmp_path, data, piece=packets.PIECE):
    (tmp_path / "a.pftrace").write_bytes(data)
    return list(packets.pieces(tmp_path / "a.pftrace", piece))


@pytest.mark.parametrize("piece", [1, 2, 7, 64, 1000, 1 << 20])
def test_pieces_are_the_file_cut_between_fields(tmp_path, piece):
    fields = [packet(b""), packet(b"a" * 100), packet(b"b" * 130), packet(b"c" * 20_000), field(200, 3), field(17, 2.5), field(40, "what"),
              packet(b"d"), varint(7 << 3 | 5) + b"four"] * 3
    found = cut(tmp_path, b"".join(fields), piece)
    assert b"".join(each for _, each, _ in found) == b"".join(fields)
    places = [offset + at for offset, _, begins in found for at in begins]
    assert places == [sum(map(len, fields[:count])) for count in range(len(fields))]
    assert len(found) > 1 or piece > 60_000


def test_no_more_is_held_than_a_piece_or_a_packet(tmp_path):
    path = tmp_path / "a.pftrace"
    with path.open("wb") as file:
        for at in range(300):
            file.write(b"".join(begin(at * 100 + i, 1, "a name", "d" * 1000) for i in range(100)))
    assert path.stat().st_size > 30_000_000
    tracemalloc.start()
    try:
        largest = max(len(piece) for _, piece, _ in packets.pieces(path, 1 << 16))
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert largest < 2 * (1 << 16) and held < 16 * (1 << 16), "2000 times the piece are in the file"


GOOD = packet(b"fine") * 3  # 18 bytes


@pytest.mark.parametrize("bad, said", [
    (packet(b"a" * 100)[:-1], "at byte 18: a field that ends at byte 120 of a file of 119 bytes .was it cut short"),
    (b"\x0a", "at byte 18: the file ends in a field"), (b"\x0a\x80\x80", "at byte 18: the file ends in a field"),
    (b"\x0a" + varint(1 << 62), "at byte 18: a field that ends at byte 46116860184273879"),
    (b"\x0a" + b"\xff" * 9, "the file ends in a field"),
    (b"\x0a" + b"\xff" * 10, "at byte 19: a number of more than 64 bits"), (b"\xff" * 11, "at byte 18: a number of more than 64 bits"),
    (b"\x0a" + b"\xff" * 9 + b"\x7f", "at byte 19: a number of more than 64 bits"),
    (b"\x0c\x00", "at byte 18: field 1 of wire type 4 .expected packets"), (b"\x02\x00", "at byte 18: field 0 of wire type 2"),
], ids=["short", "tag alone", "length not whole", "length beyond the end", "long length not whole", "giant length", "giant tag",
        "65 bits", "group", "field 0"])
@pytest.mark.parametrize("piece", [3, 1 << 20])
def test_a_damaged_file_is_named_with_the_place(tmp_path, bad, said, piece):
    with pytest.raises(ConfigError, match=r"a\.pftrace: is not a Perfetto trace: .*" + said):
        cut(tmp_path, GOOD + bad, piece)


def test_a_packet_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.pftrace"
    with path.open("wb") as file:
        file.write(GOOD + b"\x0a" + varint(packets.MOST_PACKET))
        file.truncate(packets.MOST_PACKET + 100)  # a hole: no bytes are on disk
    with pytest.raises(ConfigError, match="at byte 18: a field of 671088[0-9]* bytes .expected at most 67108864"):
        list(packets.pieces(path))
