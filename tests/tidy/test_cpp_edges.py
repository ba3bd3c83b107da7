"""The includes between C++ folders are those that allowed_includes.txt lists, in no circle, and the rule would notice others."""
import pytest
from cpp_edges import allowed, circle, edges, sources, strangers, used

THERE = edges(sources())


def test_every_include_is_on_the_list():
    assert not strangers(THERE, allowed())


def test_the_list_has_no_circle():
    assert not circle(allowed())


def test_the_list_has_nothing_that_no_source_uses():
    real = {(folder, other) for _, _, folder, other in THERE}
    listed = {(folder, other) for folder, others in allowed().items() for other in others}
    assert not listed - real


def test_the_whole_tree_was_read():
    real = used(THERE)
    assert {"engine/base", "engine/parts/ffn/neuron_cluster", "hw_models/dram", "sim/characterize", "traces", "python/bindings"} <= set(real)
    assert "engine/machine" in real["sim"]
    assert set(real) <= set(allowed())


LISTED = allowed("# of three folders\nengine/base:\nengine/ops: engine/base\nsim: engine/base engine/ops\n")


@pytest.mark.parametrize("path, text", [
    ("engine/base/a.hpp", '#include "sim/s.hpp"\n'),
    ("engine/ops/a.cpp", '  #  include "sim/s.hpp"\n'),
    ("engine/ops/inner/a.cpp", '#include "engine/base/b.hpp"\n'),
    ("engine/base/a.cpp", '#include "../ops/o.hpp"\n'),
    ("hw_models/a.cpp", '#include <engine/base/b.hpp>\n')])
def test_an_include_that_is_not_on_the_list_is_noticed(path, text):
    texts = {"engine/base/b.hpp": "", "engine/ops/o.hpp": "", "sim/s.hpp": "", path: "\n" + text}
    assert [message.split(" may")[0] for message in strangers(edges(texts), LISTED)] == [f"{path}:2: {path.rpartition('/')[0]}"]


def test_what_is_listed_or_lies_in_the_same_folder_passes():
    texts = {"engine/base/b.hpp": "#include <vector>\n", "engine/ops/o.hpp": '#include "engine/base/b.hpp"\n',
             "sim/s.hpp": '#include "engine/ops/o.hpp"\n#include "t.hpp"\n', "sim/t.hpp": ""}
    assert not strangers(edges(texts), LISTED)


@pytest.mark.parametrize("text, length", [("a: b\nb: a\n", 3), ("a: b\nb: c d\nc:\nd: a\n", 4)])
def test_a_circle_is_noticed(text, length):
    assert len(circle(allowed(text))) == length


def test_a_diamond_is_no_circle():
    assert not circle(allowed("a: b c\nb: d\nc: d\nd:\n"))
