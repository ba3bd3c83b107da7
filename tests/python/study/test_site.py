"""The site of a study: whole without a network, usable with a keyboard, readable in both themes and on a phone."""
import json

import pandas
import pytest
import vitro
import yaml
from balanced_html import Balanced
from browser import PROGRAM, Browser
from conftest import ROOT
from vitro.study import parts
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
    (device,) = (site.parent / "devices").iterdir()
    assert "&#34;cache_lookup_cycles&#34;" in balanced(device) and "&#34;cache_lookup_cycles&#34;" not in page
    assert f'The device is <a href="../devices/{device.name}">' in page
    traced = [path for path in points if "trace.json" in path.read_text()]
    assert len(traced) == 1
    link = traced[0].read_text().partition('trace.json</a>')[0].rpartition('href="')[2].partition('"')[0]
    assert json.loads((traced[0].parent / link).read_text())["traceEvents"]


def test_points_are_numbered_as_in_the_table(study, site):
    table = pandas.read_parquet(study / "results.parquet")
    ran = table[table["status"] != "failed"]
    assert {path.name for path in (site.parent / "points").iterdir()} == {f"{at:05d}.html" for at in ran["point"]}
    for row in ran.to_dict("records"):
        page = (site.parent / "points" / f"{row['point']:05d}.html").read_text()
        assert f"<h1>Point {row['point']}</h1>" in page and f"<dd>{row['identity']}</dd>" in page
        assert f"<dt>workload.seed</dt><dd>{row['workload.seed']}</dd>" in page


def synthetic(study, out, count, device=lambda index, tree: tree):
    """A study of as many points, each like the first one of `study`, which finished in the opposite order."""
    (folder := out / "store/parts").mkdir(parents=True)
    (out / "store/format.json").write_bytes((study / "store/format.json").read_bytes())
    one = parts.read(study / "store/parts" / parts.listed(study / "store/parts")[0])[0]
    resolved, rows = json.loads(one["resolved"]), []
    for index in range(count):
        mine = resolved | {"device": device(index, resolved["device"])}
        point = json.loads(one["point"]) | {"workload.seed": index}
        rows.append(one | {"identity": f"{index // 2:016x}", "repeat": index % 2, "point": json.dumps(point), "resolved": json.dumps(mine),
                           "finished": f"2026-01-01T00:{59 - index // 60:02d}:{59 - index % 60:02d}.000Z"})
    parts.write(folder, rows)
    table = [{"point": index, "status": "ok", "identity": row["identity"], "repeat": row["repeat"]} for index, row in enumerate(rows)]
    pandas.DataFrame(table).to_parquet(out / "results.parquet")
    return table


def test_a_point_takes_little_room(study, tmp_path):
    synthetic(study, tmp_path, 40)
    folder = write_site(tmp_path).parent
    sizes = [path.stat().st_size for path in (folder / "points").iterdir()]
    assert len(sizes) == 40 and max(sizes) < 16_000, "2,000 points in 60 MB, with their rows in the index"
    assert len(list((folder / "devices").iterdir())) == 1
    rows = (folder / "index.html").read_text().partition("<tbody>")[2].partition("</tbody>")[0]
    assert len(rows) / 40 < 4_000


def test_repeats_and_rows_of_earlier_runs_keep_their_own_pages(study, tmp_path):
    table = synthetic(study, tmp_path, 6)
    folder = write_site(tmp_path).parent / "points"
    for row in table:
        page = (folder / f"{row['point']:05d}.html").read_text()
        assert f"<dd>{row['identity']}</dd>" in page and f"<dt>workload.seed</dt><dd>{row['point']}</dd>" in page
    pandas.DataFrame(table[:4]).to_parquet(tmp_path / "results.parquet")  # of a later sweep with fewer points
    write_site(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["0000000000000002-0.html", "0000000000000002-1.html", *(f"{at:05d}.html" for at in range(4))])
    assert "<h1>Point 000000000000</h1>" in (folder / "0000000000000002-1.html").read_text()


def test_devices_that_differ_a_little_share_a_page(study, tmp_path):
    def device(index, tree):
        if index == 3:
            return {"name": "another <i>phone</i>", "parts": {f"part{at}": at for at in range(100)}}
        return tree | {"new": {"parameter": index}} if index else tree
    synthetic(study, tmp_path, 4, device)
    folder = write_site(tmp_path).parent
    assert sorted(path.name for path in (folder / "devices").iterdir()) == ["00000.html", "00001.html"]
    pages = [balanced(folder / "points" / f"{at:05d}.html") for at in range(4)]
    assert "but for:" not in pages[0] and "but for:</p>\n<dl><dt>new.parameter</dt><dd>2</dd></dl>" in pages[2]
    assert '<a href="../devices/00001.html">another &lt;i&gt;phone' in pages[3] and "part99" in balanced(folder / "devices/00001.html")


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
