"""Packets of Perfetto's format, written here byte by byte."""
import struct


def varint(value):
    out = b""
    while value > 0x7f:
        out, value = out + bytes([value & 0x7f | 0x80]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A number, a text or a message's bytes, or a double."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def packet(body):
    return field(1, body)


def track(uuid, name, parent=0, process=None):
    described = field(1, uuid) + field(2, name) + (field(5, parent) if parent else b"") + (field(3, field(6, process)) if process else b"")
    return packet(field(60, described))


def begin(at, uuid, name, detail=""):
    noted = field(4, field(10, "detail") + field(6, detail)) if detail else b""
    return packet(field(8, at) + field(11, field(9, 1) + field(11, uuid) + field(23, name) + noted))


def end(at, uuid):
    return packet(field(8, at) + field(11, field(9, 2) + field(11, uuid)))


def counted(at, uuid, value):
    return packet(field(8, at) + field(11, field(9, 4) + field(11, uuid) + field(44, float(value))))
