"""Tables in the libraries of notebooks: pandas, which comes with vitro, and polars, which need not be there."""
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

if TYPE_CHECKING:
    import polars


def polars_frame(columns: Mapping[str, Sequence[Any]]) -> "polars.DataFrame":
    """Raises ConfigError where polars is not installed."""
    try:
        import polars
    except ImportError:
        raise ConfigError("polars is not installed (expected `pip install polars`, or the pandas table instead)") from None
    return polars.DataFrame({name: list(values) for name, values in columns.items()}, strict=False)


def html_table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), caption: str = "") -> str:
    """A small table of texts for notebooks: the first column to the left, the others to the right. Colours are the notebook's own."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:{"right" if i else "left"}">{escape(cell)}</{tag}>'
                                for i, cell in enumerate(cells)) + "</tr>"
    top = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    heading = f"<thead>{line(head, 'th')}</thead>" if head else ""
    return f"<table>{top}{heading}<tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
