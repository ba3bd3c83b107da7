"""What keys mean, from the tables of docs/reference/experiment-keys.md: an editor shows it beside a key."""
import re
from pathlib import Path

from ..base.engine_keys import present_name

PAGE = Path("docs") / "reference" / "experiment-keys.md"
_SECTIONS = ("engine.moe", "engine.clusters")  # headings whose tables have keys without their section


def described(folder: Path) -> dict[str, str]:
    """{dotted key, as it is called now: its meaning and default}; empty where that folder has no such page."""
    page = folder / PAGE
    return of_tables(page.read_text()) if page.is_file() else {}


def of_tables(text: str) -> dict[str, str]:
    """The same of a page's text. A row may have several keys."""
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").strip()
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        keys = re.findall(r"`([\w.]+)`", cells[0]) if line.startswith("|") else []
        if len(cells) < 2 or not keys:
            continue
        meaning, default = plain(cells[1]), plain(cells[2]) if len(cells) > 2 else ""
        said = meaning if cells[1].startswith("`") else meaning[:1].upper() + meaning[1:]
        said += f"\n\nDefault: {default}" if default not in ("", "none") else ""
        for key in keys:
            found[present_name(f"{section}.{key}" if section in _SECTIONS else key)] = said
    return found


def plain(cell: str) -> str:
    """A cell without links, and with its bars."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("\\|", "|").replace("`", "").strip()
