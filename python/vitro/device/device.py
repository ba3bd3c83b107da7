"""`vitro.Device`: a device file as an object."""
import copy
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from ..base import inputs, native, process, quantities
from ..base.frames import html_table
from ..base.inputs import Path
from ..base.whole_files import in_place
from ..errors import ConfigError
from .models import attached
from .probes import locate
from .sensitivity import scaled

if TYPE_CHECKING:
    import pandas


class Device:
    """A phone: its blocks with their parameters. Immutable; `override` gives another one.

    >>> device = vitro.Device("configs/devices/oneplus12.yaml")
    >>> device.parameters().query("kind == 'assumed'")
    >>> faster = device.override({"ufs.link_bandwidth": "8 GB/s"}, source="what if the link doubled")
    >>> vitro.run("experiments/quickstart.yaml", device=faster)
    >>> faster.save("faster.yaml")
    """

    def __init__(self, source: Path | dict[str, Any]) -> None:
        """source: a path, or the tree of a device as a dict."""
        self._tree = copy.deepcopy(source) if isinstance(source, dict) else native.call("load_device", inputs.existing(source))

    @property
    def tree(self) -> dict[str, Any]:
        return copy.deepcopy(self._tree)

    @property
    def name(self) -> str | None:
        return self._tree.get("name")

    def parameters(self, *, models: Sequence[type] = ()) -> "pandas.DataFrame":
        """pandas.DataFrame, one row per parameter that the device's models read: parameter (dotted), value (SI), unit, kind, source.

        kind is spec, measured, derived, scaled, fitted, assumed, default (the model's own, since the file says nothing), or
        choice (a word such as the name of a DRAM part, which is no measurement).
        """
        import pandas
        rows = process.call("device_parameters", json.dumps(self._tree), attached=attached(models))
        return pandas.DataFrame(rows, columns=["parameter", "value", "unit", "kind", "source"])

    def override(self, values: Mapping[str, Any], *, kind: str = "assumed", source: str = "overridden") -> "Device":
        """Another device. values: {dotted name, as in parameters(): value as in a file}, such as {"cpu.big.clock": "3 GHz"}. A
        parameter takes `kind` and `source` as its provenance; a block (a dict) and a word (`model`, `fidelity`) do not."""
        tree = self.tree
        for name, value in values.items():
            *path, key = name.split(".")
            parent = locate(tree, ".".join(path)) if path else tree
            if not isinstance(parent, dict):
                raise ConfigError(f'override: there is no block "{".".join(path)}" in {self.name}')
            parent[key] = {"value": value, "kind": kind, "source": source} if _is_quantity(value) else copy.deepcopy(value)
        return Device(tree)

    def scaled(self, name: str, factor: float) -> "Device":
        """Another device with one number, or a table of them, multiplied; provenance stays. name: dotted, as in parameters(). A bare number
        of one or more does not go below one: it may be a count of cores."""
        if locate(self._tree, name) is None:
            raise ConfigError(f'scaled: there is no "{name}" in {self.name} (parameters() lists those that its file states)')
        return Device(json.loads(scaled(self._tree, {name: factor})))

    def probe(self, name: str, **args: Any) -> dict[str, float]:
        """One microbenchmark of the device (docs/guide/characterize.md) -> {measure: value in SI units}."""
        return process.call("characterize_probe", json.dumps(self._tree), name, json.dumps(args))["measures"]

    def save(self, path: Path) -> None:
        """Writes a device file. Comments of the file that it came from are lost, sources are not."""
        with in_place(pathlib.Path(path)) as unfinished:
            unfinished.write_text(yaml.safe_dump(self._tree, sort_keys=False, allow_unicode=True, width=130))

    def __repr__(self) -> str:
        return f"Device({self.name!r}, {', '.join(key for key, value in self._tree.items() if isinstance(value, dict))})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the blocks, their models and fidelities. `parameters()` is the table of numbers."""
        blocks = [(key, str(value.get("model", "–")), str(value.get("fidelity", "–"))) for key, value in self._tree.items()
                  if isinstance(value, dict)]
        return html_table(blocks, ["block", "model", "fidelity"], f"{self.name}: {self._tree.get('description', '')}")


def _is_quantity(value: Any) -> bool:
    """59.6, "59.6 GB/s", "50%": what carries a provenance."""
    if isinstance(value, str):
        return any(quantities.parse(value, dimension) is not None for dimension in quantities.DIMENSIONS)
    return isinstance(value, (int, float)) and not isinstance(value, bool)
