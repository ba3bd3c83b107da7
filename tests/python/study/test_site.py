"""The site of a study: whole without a network, usable with a keyboard, readable in both themes and on a phone."""
import json

import pytest
import vitro
import yaml
from balanced_html import Balanced
from browser import PROGRAM, Browser
from conftest import ROOT
from vitro.study.site import write_site

# Contrast of each element that has text of its own with what lies behind it (WCAG 2.1, relative luminance); pictures are white paper.
CONTRAST = """(() => {
  const channels = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = (rgb) => { const [r, g, b] = rgb.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                           return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (element) => { for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor); if (colour.length < 4 || colour[3] > 0) return colour; }
    return [255, 255, 255]; };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest("svg, script") || element.offsetParent === null) continue;
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), element.tagName, element.textContent.trim().slice(0, 30)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
})()"""
ROWS = "[...document.querySelectorAll('table.points tbody tr')].filter(row => !row.hidden).map(row => row.cells[{}].dataset.value)"


@pytest.fixture(scope="module")
def study(tmp_path_factory, has_native):
    if not has_native:
        pytest.skip("the extension module is not built")
    folder = tmp_path_factory.mktemp("study")
    base = yaml.safe_load((ROOT / "experiments/quickstart.yaml").read_text())
    base |= {"experiment": "a <b>bold</b> & odd name", "device": "vitro:devices/oneplus12"}
    base["workload"]["output_tokens"] = 4
    base["model"] = {"gguf": str(ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf")}
    base["sweep"] = {"engine.policy": ["dense", "neuron_cluster"], "memory.ffn_in_dram": ["100%", "50%"], "workload.seed": [1, 2, 3]}
    (folder / "e.yaml").write_text(yaml.safe_dump(base))
    vitro.sweep(folder / "e.yaml", out=folder / "out", traces=[0])
    return folder / "out"


@pytest.fixture(scope="module")
def site(study):
    return write_site(study)


@pytest.fixture(scope="module")
def browser():
    if PROGRAM is None:
        pytest.skip("there is no Chromium (./vitro test --all installs it)")
    with Browser() as running:
        yield running


def balanced(path):
    page = Balanced()
    page.feed(path.read_text())
    assert not page.open and len(set(page.ids)) == len(page.ids) and not page.external
    return path.read_text()


def test_pages_are_whole_and_name_where_numbers_come_from(study, site):
    text = balanced(site)
    assert "a &lt;b&gt;bold&lt;/b&gt; &amp; odd name" in text and "<b>bold" not in text
    frame = vitro.Study(study).to_frame()
    assert text.count("<a href=\"points/") == len(frame) == 9 and "3 of the last run failed" in text
    points = sorted((site.parent / "points").iterdir())
    assert len(points) == 9
    page = balanced(points[0])
    for part in ("identity", "SHA-256", "assumed parameters", "Decode", "&#34;schema&#34;: &#34;vitro.experiment/1&#34;"):
        assert part in page
    traced = [path for path in points if "trace.json" in path.read_text()]
    assert len(traced) == 1
    link = traced[0].read_text().partition('trace.json</a>')[0].rpartition('href="')[2].partition('"')[0]
    assert json.loads((traced[0].parent / link).read_text())["traceEvents"]


def test_a_folder_without_points_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(vitro.ConfigError):
        write_site(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_site(fake, study, tmp_path):
    answer = fake("report", study, "--out", tmp_path / "public")
    assert answer.code == 0 and answer.out == f"site: {tmp_path / 'public/index.html'}\n"
    assert "no such folder" in fake("report", tmp_path / "nowhere").err


def test_a_keyboard_sorts_and_filters(browser, site):
    browser.open(site)
    for _ in range(60):
        browser.press("Tab", 9)
        if browser.evaluate("document.activeElement.textContent") == "Decode, tokens/s":
            break
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus can be seen"
    column = browser.evaluate("document.activeElement.closest('th').cellIndex")
    orders = []
    for _ in range(2):
        browser.press("Enter", 13, "\r")
        orders.append([float(value) for value in browser.evaluate(ROWS.format(column))])
    assert orders[0] == sorted(orders[0]) and orders[1] == sorted(orders[1], reverse=True) and orders[0] != orders[1]
    assert browser.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    browser.evaluate("document.querySelector('#words').focus()")
    for letter in "neuron 50%":
        browser.press(letter, text=letter)
    assert browser.evaluate(ROWS.format(1)) == ["neuron_cluster"] * 3
    assert browser.evaluate("document.querySelector('[role=status]').textContent") == "3 of 9 points"
    browser.evaluate("(() => { const one = document.querySelectorAll('select')[0]; one.value = 'dense'; "
                     "one.dispatchEvent(new Event('change')); })()")
    assert browser.evaluate(ROWS.format(1)) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", ["index.html", "points/00000.html"])
def test_text_stands_out_and_nothing_is_wider_than_the_screen(browser, site, page, width, dark):
    browser.open(site.parent / page, width=width, dark=dark)
    found = browser.evaluate(CONTRAST)
    assert len(found) > 20 and found[0][0] >= 4.5, found[:3]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
