"""Reading Perfetto's own format: what vitro writes of it (`trace: {format: perfetto}`), and slices and counters of other writers."""
import functools
import re
from pathlib import Path
from typing import Any

from ..errors import ConfigError

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
_BEGIN, _END, _COUNTER = 1, 2, 4
_STATE_CLEARED = 1


def rows(path: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], dict[int, list[tuple[Any, ...]]]]:
    """-> (spans, counters, flows): as Trace has them by time, and of each flow the spans that it goes through. Raises ConfigError for a
    file that is none, or where `protobuf` is missing."""
    trace = _decoded(path)
    tracks: dict[int, Any] = {}
    names: dict[tuple[int, int], str] = {}  # by sequence and number
    events = []
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & _STATE_CLEARED:
            names = {key: name for key, name in names.items() if key[0] != sequence}
        for named in packet.interned_data.event_names:
            names[sequence, named.iid] = named.name
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif packet.HasField("track_event"):
            event = packet.track_event
            events.append((packet.timestamp, event, event.name or names.get((sequence, event.name_iid), "")))
    return _paired(events, {uuid: _place(tracks, uuid) for uuid in tracks})


def _paired(events, places):
    spans, counters = [], []
    flows: dict[int, list[tuple[Any, ...]]] = {}
    open_slices: dict[int, list[tuple[int, str, str, list[int]]]] = {}
    for time, event, name in sorted(events, key=lambda row: row[0]):
        group, track = places.get(event.track_uuid, ("", str(event.track_uuid)))
        if event.type == _COUNTER:
            value = event.double_counter_value if event.HasField("double_counter_value") else float(event.counter_value)
            counters.append((group, track, time / 1e3, value))
        elif event.type == _BEGIN:
            detail = " ".join(each.string_value for each in event.debug_annotations if each.string_value)
            open_slices.setdefault(event.track_uuid, []).append((time, name, detail, [*event.flow_ids, *event.terminating_flow_ids]))
        elif event.type == _END and open_slices.get(event.track_uuid):
            begin, name, detail, through = open_slices[event.track_uuid].pop()
            spans.append((group, track, name, begin / 1e3, (time - begin) / 1e3, detail))
            for flow in through:
                flows.setdefault(flow, []).append(spans[-1])
    return sorted(spans, key=lambda row: row[3]), counters, flows


def _place(tracks, uuid):
    """-> (group, track): the process above a track, and its name without the number of its lane."""
    track = tracks[uuid]
    parent = tracks.get(track.parent_uuid)
    process = parent.process.process_name if parent is not None else ""
    return process.rpartition(": ")[2], re.sub(r" \(\d+\)$", "", track.name)


def _decoded(path):
    try:
        trace = _message_class()()
        trace.ParseFromString(path.read_bytes())
    except ImportError as error:
        raise ConfigError(f"{path}: reading it needs the package protobuf, which can not be imported ({error}; expected "
                          "`pip install 'vitro[perfetto]'`)") from None
    except Exception as error:  # protobuf's DecodeError, whose module has moved between versions
        if type(error).__name__ != "DecodeError":
            raise
        raise ConfigError(f"{path}: is not a Perfetto trace ({error})") from None
    return trace


@functools.cache
def _message_class():
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
