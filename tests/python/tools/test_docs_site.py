"""The documentation as a site: it builds without a warning, loads nothing from the network, and a broken link fails."""
import html.parser
import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("mkdocs", reason="mkdocs builds the documentation site")


def build(root, out):
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", root / "tools/docs/mkdocs.yml", "-d", out],
                          capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    run = build(ROOT, out)
    assert run.returncode == 0, run.stderr
    return out


class Loaded(html.parser.HTMLParser):
    """What a page loads, without what it links to."""

    def __init__(self):
        super().__init__()
        self.urls = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.urls.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "shortcut icon", "preload"):
            self.urls.append(given["href"])


@pytest.mark.all
def test_every_page_and_notebook_is_there_and_in_the_index_of_the_search(site):
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    missing = [page for page in pages if not (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()]
    assert len(pages) > 70 and not missing
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any(entry["location"].startswith("notebooks/first_hour.html") for entry in found)
    assert any("Belady" in entry["text"] for entry in found)
    assert all((site / f"schema/{name}.json").is_file() for name in ("experiment", "device", "plan"))
    assert (site / "notebooks/first_hour.ipynb").is_file() and not list(site.rglob("*.py"))


@pytest.mark.all
def test_nothing_is_loaded_from_the_network(site):
    urls = set()
    for page in site.rglob("*.html"):
        loaded = Loaded()
        loaded.feed(page.read_text())
        urls |= set(loaded.urls)
    assert any(url.endswith("blocks.css") for url in urls)
    assert not [url for url in urls if url.startswith(("http:", "https:", "//"))]


@pytest.mark.parametrize("text, said", [("[a](nowhere.md)", "nowhere.md"),
                                        ("[a](glossary.md#no-such-word)", "no-such-word"), ("fine", None)])
def test_a_broken_link_fails(tmp_path, text, said):
    (tmp_path / "docs").mkdir()
    shutil.copytree(ROOT / "tools/docs", tmp_path / "tools/docs")
    for name in ("index", "architecture", "glossary"):
        (tmp_path / f"docs/{name}.md").write_text(f"# {name}\n")
    (tmp_path / "docs/index.md").write_text(f"# Start\n\n{text}\n")
    run = build(tmp_path, tmp_path / "site")
    assert (run.returncode != 0, said is None or said in run.stderr) == (said is not None, True), run.stderr


def test_what_belongs_to_an_item_is_indented_by_four():
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "tools/docs/hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    given = "1. One\n   more:\n\n   ```yaml\n   a: 1\n     b: 2\n   ```\n\n   After.\n2. Two\n\nText\n\n```\n  - kept\n```\n- a\n  - b\n"
    wanted = ("1. One\n    more:\n\n\n        a: 1\n          b: 2\n\n\n    After.\n\n2. Two\n\nText\n\n```\n  - kept\n```\n- a\n    - b\n")
    assert hooks.by_fours(given) == wanted
    assert hooks.anchor("`result.json` (schema `vitro.result/1`)", "-") == "resultjson-schema-vitroresult1"
