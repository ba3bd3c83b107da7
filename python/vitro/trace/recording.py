"""`vitro.Recording`: what the data of a run decided, as NumPy arrays, and a run's decisions from arrays of yours."""
import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import native
from ..base.inputs import existing
from ..errors import ConfigError

if TYPE_CHECKING:
    import numpy

NO_EXPERT = -1  # the FFN of a dense layer
_FORESEEN = 2 ** 15 - 2  # in place of an expert: what a router named that was asked a layer ahead
_TOKENS, _DRAWN = "tokens", "drawn by the run"  # in `about`: those of other positions were given
_MOST = 2 ** 15 - 1  # layers, and experts
_LAST = 2 ** 31 - 1  # sequence, position and token
_WIDEST, _CELLS = 2 ** 20, 2 ** 30  # neurons of an FFN, and cells of an array, that are made from a file


class Recording:
    """Which neurons fired, which experts were chosen and which tokens came, each by layer, sequence and position. Immutable.

    >>> recording = vitro.Recording.from_arrays(fired=active)  # bool [layers, tokens, neurons], from hooks of PyTorch for instance
    >>> recording.save("mine.vtrc")
    >>> vitro.run("experiments/offload.yaml", overrides={"engine.replay": "mine.vtrc"})
    >>> at, active = vitro.Recording.load("mine.vtrc").fired(layer=3)
    """

    def __init__(self, tables: Mapping[str, Any]) -> None:
        """tables: as the extension module gives them; see load() and from_arrays()."""
        self._tables = tables

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """A file of engine.record, `vitro profile` or save(), in vitro's own format or Parquet. Its reads are not taken along. Raises
        ConfigError."""
        from . import columnar
        file = existing(path)
        return cls(columnar.read(file) if columnar.is_columnar(file) else native.call("recording_arrays", file))

    @classmethod
    def from_arrays(cls, *, fired: Any = None, experts: Any = None, weights: Any = None, tokens: Any = None, sequence: int = 0,
                    first_position: int = 0, about: Mapping[str, str] | None = None) -> "Recording":
        """Of one sequence, whose tokens stand at first_position, first_position + 1, ...

        fired: bool [layers, tokens, neurons], of dense FFNs; or {(layer, expert): bool [tokens, neurons]} where only some are known. With
        `experts`, rows of tokens that did not choose an expert are left out. experts: [layers, tokens, k], the experts of each token by
        descending weight; weights: the same shape, 1/k each when left out. tokens: [tokens], the token that follows each position;
        0 when left out, since a run that replays needs some. Raises ConfigError for arrays that do not fit this or each other.
        """
        import numpy
        if about is not None and not (isinstance(about, Mapping) and all(isinstance(text, str) for item in about.items() for text in item)):
            raise ConfigError(f"about: {about!r} (expected a map from texts to texts)")
        if experts is None and weights is not None:
            raise ConfigError("weights: are those of experts (expected experts as well)")
        chosen = None if experts is None else _experts(experts, weights)
        parts = _fired(fired)
        for (layer, expert), active in parts:
            if chosen is not None and expert != NO_EXPERT and (layer >= len(chosen[0]) or len(active) > chosen[0].shape[1]):
                raise ConfigError(f"fired: {len(active)} tokens of layer {layer}, expert {expert} (expected layers and tokens of experts: "
                                  f"{len(chosen[0])} layers, {chosen[0].shape[1]} tokens)")
        positions = max([len(active) for _, active in parts] + ([] if chosen is None else [chosen[0].shape[1]]), default=0)
        given = _tokens([0] * positions if tokens is None else tokens)
        sequence = _whole("sequence", sequence, _LAST)
        first_position = _whole("first_position", first_position, _LAST - max(positions, len(given)))
        rows: dict[str, list[Any]] = {name: [] for name in ("keys", "ends", "ids", "looked_at")}
        for (layer, expert), active in parts:
            for token, row in enumerate(active):
                if expert != NO_EXPERT and chosen is not None and not (chosen[0][layer, token] == expert).any():
                    continue
                ids = numpy.flatnonzero(row)
                rows["keys"].append((layer, expert, sequence, first_position + token))
                rows["ids"].append(ids)
                rows["looked_at"].append(active.shape[1])
        rows["ends"] = list(numpy.cumsum([len(ids) for ids in rows["ids"]]))
        found: dict[str, Any] = {"about": dict(about or {}), "fired": {"keys": _keys(rows["keys"]), "ends": _flat([rows["ends"]], "int64"),
                                 "ids": _flat(rows["ids"], "uint32"), "looked_at": _flat([rows["looked_at"]], "int64")}}
        here = [(layer, NO_EXPERT, sequence, first_position + token) for layer in range(0 if chosen is None else len(chosen[0]))
                for token in range(chosen[0].shape[1])] if chosen is not None else []
        count = chosen[0].shape[2] if chosen is not None else 0
        found["experts"] = {"keys": _keys(here), "ends": numpy.arange(1, len(here) + 1, dtype="int64") * count,
                            "ids": _flat([chosen[0].ravel()] if chosen else [], "uint32"),
                            "weights": _flat([chosen[1].ravel()] if chosen else [], "float32")}
        found["tokens"] = {"keys": _keys([(-1, NO_EXPERT, sequence, first_position + token) for token in range(len(given))]), "ids": given}
        return cls(found)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a file for engine.replay: Parquet where its name ends in .parquet, which is smaller and sooner read, else vitro's own
        format. The latter raises ConfigError where not all neurons of an FFN were looked at: what was not is unknown."""
        if Path(path).suffix == ".parquet":
            from . import columnar
            columnar.write(self._tables, Path(path))
            return Path(path)
        if (self._tables["fired"]["looked_at"] < 0).any():
            raise ConfigError(f"{path}: some neurons of the recording were not looked at (expected one made with engine.clusters.measure)")
        native.call("write_recording", os.fspath(path), *(self._tables[name] for name in ("about", "fired", "experts", "tokens")))
        return Path(path)

    @property
    def about(self) -> dict[str, str]:
        """Text for people: model, prompt, engine."""
        return dict(self._tables["about"])

    @property
    def ffns(self) -> list[tuple[int, int]]:
        """(layer, expert) of each FFN that fired, in order; expert -1 of a dense one."""
        import numpy
        layers, experts = self._tables["fired"]["keys"][:, :2].astype("int64").T
        return [(int(key >> 32), int(key & 0xFFFFFFFF) - 1) for key in numpy.unique((layers << 32) + experts + 1)]

    @property
    def layers(self) -> list[int]:
        """Layers with a choice of experts."""
        keys = self._tables["experts"]["keys"]
        return sorted({int(layer) for layer in keys[keys[:, 1] == NO_EXPERT, 0]})

    def fired(self, layer: int, expert: int = NO_EXPERT) -> "tuple[numpy.ndarray, numpy.ndarray]":
        """-> (at [rows, 2]: sequence and position, active: bool [rows, neurons]). neurons: as many as were looked at. Raises ConfigError
        for an FFN that fired nothing, and for one whose array would not fit into memory."""
        import numpy
        table = self._tables["fired"]
        rows = numpy.flatnonzero((table["keys"][:, 0] == layer) & (table["keys"][:, 1] == expert))
        if not len(rows):
            raise ConfigError(f"recording: has no neurons of layer {layer}" + ("" if expert == NO_EXPERT else f", expert {expert}"))
        begins = numpy.concatenate([[0], table["ends"]])
        counts = begins[rows + 1] - begins[rows]
        of_row = numpy.repeat(numpy.arange(len(rows)), counts)
        within = numpy.arange(len(of_row)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        neurons = table["ids"][begins[rows][of_row] + within]
        width = max(int(table["looked_at"][rows].max()), int(neurons.max(initial=0)) + 1)
        if width > _WIDEST or len(rows) * width > _CELLS:
            raise ConfigError(f"recording: {len(rows)} rows of {width} neurons of layer {layer} are no array (expected up to {_WIDEST} "
                              f"neurons and {_CELLS} cells)")
        active = numpy.zeros((len(rows), width), bool)
        active[of_row, neurons] = True
        return table["keys"][rows, 2:], active

    def experts(self, layer: int) -> "tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]":
        """What its router chose -> (at [rows, 2]: sequence and position, ids [rows, k], weights [rows, k])."""
        return self._named(layer, NO_EXPERT, "experts")

    def foreseen(self, layer: int) -> "tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]":
        """What its router named when look-ahead asked it on the input of the layer before; as experts(). Raises ConfigError where no run
        with look-ahead was recorded."""
        return self._named(layer, _FORESEEN, "experts that were foreseen")

    def _named(self, layer: int, by: int, what: str) -> "tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]":
        import numpy
        table = self._tables["experts"]
        rows = numpy.flatnonzero((table["keys"][:, 0] == layer) & (table["keys"][:, 1] == by))
        if not len(rows):
            raise ConfigError(f"recording: has no {what} of layer {layer}")
        begins = numpy.concatenate([[0], table["ends"]])
        counts = begins[rows + 1] - begins[rows]
        if (counts != counts[0]).any():
            raise ConfigError(f"recording: tokens of layer {layer} chose {counts.min()} to {counts.max()} experts (expected as many each)")
        at = numpy.array([numpy.arange(begins[row], begins[row + 1]) for row in rows])
        return table["keys"][rows, 2:], table["ids"][at], table["weights"][at]

    def tokens(self) -> "tuple[numpy.ndarray, numpy.ndarray]":
        """-> (at [rows, 2]: sequence and position, the token that followed [rows])."""
        return self._tables["tokens"]["keys"][:, 2:], self._tables["tokens"]["ids"]

    def generated(self, at: "numpy.ndarray") -> "numpy.ndarray | None":
        """Of rows (sequence and position) those whose token the run had drawn a position before; the others are a prompt's. None where the
        recording does not say: one of from_arrays, and one of an older vitro."""
        import numpy
        if self.about.get(_TOKENS) != _DRAWN:
            return None
        drawn, _ = self.tokens()
        return numpy.isin(_places(at), _places(drawn) + 1)

    def __repr__(self) -> str:
        counts = {name: len(self._tables[name]["keys"]) for name in ("fired", "experts", "tokens")}
        foreseen = int((self._tables["experts"]["keys"][:, 1] != NO_EXPERT).sum())
        ahead = f" and {foreseen} foreseen" if foreseen else ""
        return f"Recording({counts['fired']} rows of neurons, {counts['experts'] - foreseen} of experts{ahead}, {counts['tokens']} tokens)"


def _places(at: "numpy.ndarray") -> "numpy.ndarray":
    """Sequence and position in one number, those of a sequence one after the other."""
    return (at[:, 0].astype("int64") << 32) + at[:, 1].astype("int64")


def _keys(rows: list[tuple[int, int, int, int]]) -> "numpy.ndarray":
    import numpy
    return numpy.array(rows, dtype="int64").reshape(-1, 4)


def _flat(parts: "list[Any]", kind: str) -> "numpy.ndarray":
    import numpy
    return numpy.concatenate([numpy.asarray(part, dtype=kind).ravel() for part in parts]) if parts else numpy.zeros(0, kind)


def _whole(name: str, value: Any, most: int, least: int = 0) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name}: {value!r} (expected a whole number)") from None
    if not least <= number <= most:
        raise ConfigError(f"{name}: {number} (expected {least} to {most})")
    return number


def _array(name: str, given: Any, expected: str, kind: str | None = None) -> "numpy.ndarray":
    import numpy
    try:
        return numpy.asarray(given, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:  # lists of several lengths, texts
        raise ConfigError(f"{name}: is no array ({error}; expected {expected})") from None


def _fired(given: Any) -> "list[tuple[tuple[int, int], numpy.ndarray]]":
    """-> [((layer, expert), bool [tokens, neurons])]"""
    import numpy
    if given is None:
        return []
    if not isinstance(given, Iterable) or isinstance(given, str) or getattr(given, "shape", None) == ():
        raise ConfigError(f"fired: {given!r} (expected bool [layers, tokens, neurons], or a map from (layer, expert) to bool "
                          "[tokens, neurons])")
    parts = list(given.items()) if isinstance(given, Mapping) else [((layer, NO_EXPERT), part) for layer, part in enumerate(given)]
    found = []
    for name, part in parts:
        layer, expert = name if isinstance(name, tuple) and len(name) == 2 else (name, NO_EXPERT)
        at = _whole("fired: layer", layer, _MOST), _whole("fired: expert", expert, _MOST, NO_EXPERT)
        active = _array(f"fired: {name}", part, "bool [tokens, neurons]")
        if active.ndim != 2 or not (active.dtype == bool or (active.dtype.kind in "iuf" and numpy.isin(active, (0, 1)).all())):
            raise ConfigError(f"fired: {name} is of shape {active.shape} and type {active.dtype} (expected bool [tokens, neurons])")
        found.append((at, active.astype(bool)))
    return found


def _experts(ids: Any, weights: Any) -> "tuple[numpy.ndarray, numpy.ndarray]":
    """-> (ids, weights), both [layers, tokens, k]"""
    import numpy
    chosen = _array("experts", ids, "whole numbers [layers, tokens, k]")
    if chosen.ndim != 3 or chosen.dtype.kind not in "iu" or not chosen.shape[2]:
        raise ConfigError(f"experts: is of shape {chosen.shape} and type {chosen.dtype} (expected whole numbers [layers, tokens, k])")
    if len(chosen) > _MOST + 1:
        raise ConfigError(f"experts: has {len(chosen)} layers (expected up to {_MOST + 1})")
    if chosen.size and not 0 <= chosen.min() <= chosen.max() <= _MOST:
        raise ConfigError(f"experts: from {chosen.min()} to {chosen.max()} (expected 0 to {_MOST})")
    ordered = numpy.sort(chosen, axis=2)
    if (ordered[:, :, 1:] == ordered[:, :, :-1]).any():
        raise ConfigError("experts: a token chose the same expert twice (expected different ones)")
    scores = numpy.full(chosen.shape, 1 / chosen.shape[2]) if weights is None else _array(
        "weights", weights, f"finite numbers of the shape of experts, {chosen.shape}", "float32")
    if scores.shape != chosen.shape or not numpy.isfinite(scores).all():
        raise ConfigError(f"weights: is of shape {scores.shape} (expected finite numbers of the shape of experts, {chosen.shape})")
    return chosen, scores


def _tokens(given: Any) -> "numpy.ndarray":
    ids = _array("tokens", given, "whole numbers [tokens]")
    ids = ids.astype("int32") if ids.shape == (0,) else ids
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or (ids.size and not 0 <= ids.min() <= ids.max() <= _LAST):
        raise ConfigError(f"tokens: is of shape {ids.shape} and type {ids.dtype} (expected whole numbers [tokens], 0 or more, "
                          f"up to {_LAST})")
    return ids.astype("int32")
