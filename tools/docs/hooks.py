"""What the documentation site needs besides mkdocs: pages of notebooks, a menu of all pages by their titles, and the colours of code."""
import re
from pathlib import Path

import jupytext
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pygments.formatters import HtmlFormatter

SECTIONS = {"guide": "Guide", "notebooks": "Notebooks", "reference": "Reference", "design": "Design", "results": "Results"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings get the anchors that they have where the Markdown is read in a repository; the menu lists every page."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    docs = Path(config.docs_dir)
    for folder, name in SECTIONS.items():
        pages = sorted([*docs.glob(f"{folder}/*.md"), *docs.glob(f"{folder}/*.ipynb")])
        listed = [{title_of(page): str(page.relative_to(docs).with_suffix(".md"))} for page in pages]
        if listed and isinstance(config.nav, list):
            config.nav.append({name: sorted(listed, key=lambda entry: next(iter(entry)).lower())})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A notebook's page is its text and its code, as it is before it runs. The notebook itself can be downloaded beside it."""
    for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=page_of(path)))
    style = HtmlFormatter(style="friendly").get_style_defs(".codehilite")
    files.append(File.generated(config, "blocks.css", content=f"{style}\n.codehilite pre {{ overflow-x: auto; padding: .6em; }}\n"))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    return by_fours(markdown)


def by_fours(text: str) -> str:
    """What belongs to an item of a list begins below the item's text; here it has to be indented by four. A block of code within an item is
    indented by eight, and loses the colours of its language."""
    lines: list[str] = []
    width, fence = 0, None  # of the items of the list that we are in; of the block that is open within one: the indentation of its fence
    loose = False           # the item has more than one paragraph
    outside = False         # in a block of code that is in no list
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        item = re.match(r"(\d+\. |[-*] )", line)
        if fence is not None:
            if line.strip() == "```":
                fence = None
            lines.append("        " + line[fence:] if fence is not None and line.strip() else "")
        elif line.startswith("```"):
            outside, width = not outside, 0
            lines.append(line)
        elif outside:
            lines.append(line)
        elif item:
            if width and loose and lines[-1]:
                lines.append("")  # an item may follow a paragraph of the one before
            width, loose = len(item.group()), False
            lines.append(line)
        elif width and line.strip() and indent == 0 and lines[-1] == "":
            width = 0
            lines.append(line)
        elif width and indent >= width and line.lstrip().startswith("```"):
            fence = indent
            lines.append("")
        elif width and indent >= width:
            loose = loose or lines[-1] == ""
            lines.append("    " * (1 + (indent - width) // 2) + line.lstrip())
        else:
            lines.append(line)
    return "\n".join(lines)


def page_of(notebook: Path) -> str:
    text = jupytext.writes(jupytext.read(notebook), fmt="md")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    title, _, rest = text.strip().partition("\n")
    return f"{title}\n\n[{notebook.name}]({notebook.name}) is this page as a notebook.\n{rest}\n"


def title_of(page: Path) -> str:
    """The first heading of a page or of a notebook."""
    text = page.read_text() if page.suffix == ".md" else page_of(page)
    found = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    return (found.group(1) if found else page.stem).replace("`", "")


def anchor(heading: str, separator: str) -> str:
    """GitHub's rule: small letters, no punctuation, and each blank becomes a hyphen."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)
