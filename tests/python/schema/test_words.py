"""Meanings of keys, from the tables of the documents."""
from conftest import ROOT

from vitro.schema.words import described, of_tables

PAGE = """
| key | meaning | default |
|---|---|---|
| `engine.units` | names of units ([GPU](../design/gpu.md)) | `cpu0` |
| `workload.softmax` | softmax alone, `exp: table\\|f16` | none |
| `a.b`, `a.c` | two of them | |

## engine.clusters

| key | meaning | default |
|---|---|---|
| `eviction` | what goes | `lru` |
"""


def test_a_row_describes_its_keys_by_their_present_names():
    assert of_tables(PAGE) == {"engine.placement.units": "Names of units (GPU)\n\nDefault: cpu0",
                               "workload.softmax": "Softmax alone, exp: table|f16", "a.b": "Two of them", "a.c": "Two of them",
                               "engine.weights.eviction": "What goes\n\nDefault: lru"}


def test_the_page_of_keys_is_read_and_may_be_missing(tmp_path):
    assert len(described(ROOT)) > 100 and described(tmp_path) == {}
