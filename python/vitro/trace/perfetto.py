"""Reading Perfetto's own format: what vitro writes of it (`trace: {format: perfetto}`), and slices and counters of other writers."""
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .packets import broken, pieces

# Messages and fields of https://github.com/google/perfetto (protos/perfetto/trace) that are read: name, number, type, whether repeated.
_MESSAGES: dict[str, list[tuple[str, int, str, bool]]] = {
    "Trace": [("packet", 1, "TracePacket", True)],
    "TracePacket": [("timestamp", 8, "uint64", False), ("trusted_packet_sequence_id", 10, "uint32", False),
                    ("track_event", 11, "TrackEvent", False), ("interned_data", 12, "InternedData", False),
                    ("sequence_flags", 13, "uint32", False), ("track_descriptor", 60, "TrackDescriptor", False)],
    "TrackEvent": [("debug_annotations", 4, "DebugAnnotation", True), ("type", 9, "uint32", False), ("name_iid", 10, "uint64", False),
                   ("track_uuid", 11, "uint64", False), ("name", 23, "string", False), ("counter_value", 30, "int64", False),
                   ("double_counter_value", 44, "double", False), ("flow_ids", 47, "fixed64", True),
                   ("terminating_flow_ids", 48, "fixed64", True)],
    "DebugAnnotation": [("name_iid", 1, "uint64", False), ("string_value", 6, "string", False), ("name", 10, "string", False)],
    "InternedData": [("event_names", 2, "Named", True)],
    "Named": [("iid", 1, "uint64", False), ("name", 2, "string", False)],
    "TrackDescriptor": [("uuid", 1, "uint64", False), ("name", 2, "string", False), ("process", 3, "ProcessDescriptor", False),
                        ("parent_uuid", 5, "uint64", False), ("counter", 8, "Counter", False)],
    "ProcessDescriptor": [("pid", 1, "int32", False), ("process_name", 6, "string", False)],
    "Counter": [("type", 3, "uint32", False)],
}
BEGIN, END, COUNTER = 1, 2, 4  # types of track events; what else there is has no time of its own
_STATE_CLEARED = 1


class Events:
    """What a file holds, read once, piece by piece. Memory is for one piece, and for each track and each name."""

    COLUMNS = ("ns", "track", "kind", "name", "detail", "value", "flows")  # ns, uuid, as BEGIN, text, text, a counter's, ids

    def __init__(self, path: Path) -> None:
        """Raises ConfigError where `protobuf` is missing."""
        try:
            self._message = _message_class()
        except ImportError as error:
            raise ConfigError(f"{path}: reading it needs the package protobuf, which can not be imported ({error}; expected "
                              "`pip install 'vitro[perfetto]'`)") from None
        self._path = path
        self._tracks: dict[int, tuple[str, str, int]] = {}  # by uuid: name, name of the process, uuid of the one above
        self._names: dict[tuple[int, int], str] = {}  # by sequence and number

    def batches(self) -> Iterator[tuple[list[Any], ...]]:
        """-> columns, of the events of each piece in the order of the file.

        Raises ConfigError with file and offset for what is no trace."""
        for offset, piece, begins in pieces(self._path):
            columns: tuple[list[Any], ...] = tuple([] for _ in self.COLUMNS)
            for packet in self._decoded(offset, piece, begins).packet:
                self._take(packet, columns)
            yield columns

    def places(self) -> list[tuple[int, str, str]]:
        """-> (uuid, group, track) of the tracks that have been described so far: the process above a track, and its name without the number
        of its lane."""
        def process(above: int) -> str:
            return self._tracks[above][1].rpartition(": ")[2] if above in self._tracks else ""
        return [(uuid, process(above), re.sub(r" \(\d+\)$", "", name)) for uuid, (name, _, above) in self._tracks.items()]

    def _take(self, packet: Any, columns: tuple[list[Any], ...]) -> None:
        if packet.sequence_flags & _STATE_CLEARED:
            sequence = packet.trusted_packet_sequence_id
            self._names = {key: name for key, name in self._names.items() if key[0] != sequence}
        if packet.HasField("interned_data"):
            for named in packet.interned_data.event_names:
                self._names[packet.trusted_packet_sequence_id, named.iid] = _text(named.name)
        if packet.HasField("track_event"):
            event = packet.track_event
            kind = event.type
            if kind not in (BEGIN, END, COUNTER):
                return
            name = detail = flows = value = None
            if kind == BEGIN:
                name = _text(event.name) or self._names.get((packet.trusted_packet_sequence_id, event.name_iid), "")
                detail = " ".join([_text(each.string_value) for each in event.debug_annotations])
                flows = [*event.flow_ids, *event.terminating_flow_ids] or None
            elif kind == COUNTER:
                value = event.double_counter_value if event.HasField("double_counter_value") else float(event.counter_value)
            for column, cell in zip(columns, (packet.timestamp, event.track_uuid, kind, name, detail, value, flows)):
                column.append(cell)
        elif packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            self._tracks[track.uuid] = (_text(track.name), _text(track.process.process_name), track.parent_uuid)

    def _decoded(self, offset: int, piece: bytes, begins: list[int]) -> Any:
        try:
            return self._message.FromString(piece)
        except Exception as error:  # protobuf's DecodeError, whose module has moved between versions
            if type(error).__name__ != "DecodeError":
                raise
            if len(begins) == 1:
                raise broken(self._path, offset, str(error)) from None
        for begin, end in zip(begins, [*begins[1:], len(piece)]):
            self._decoded(offset + begin, piece[begin:end], [0])
        raise broken(self._path, offset, "packets that can be read one by one, but not together")


def _text(value: Any) -> str:
    """protobuf gives bytes that are no UTF-8 as they are."""
    return value if type(value) is str else value.decode("utf-8", "replace")


@functools.cache
def _message_class() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="vitro_perfetto.proto", package="vitro.perfetto", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            if kind in _MESSAGES:
                message.field.add(name=field, number=number, type=field_type.TYPE_MESSAGE, type_name=f".vitro.perfetto.{kind}", label=label)
            else:
                message.field.add(name=field, number=number, type=getattr(field_type, f"TYPE_{kind.upper()}"), label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("vitro.perfetto.Trace"))
