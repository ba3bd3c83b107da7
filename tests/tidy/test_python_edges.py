"""The imports between Python packages are those of the list, and the rule would notice others."""
import ast

import pytest
from python_edges import EDGES, circle, graph, modules, strangers

THERE = graph(modules())


def test_every_import_is_on_the_list():
    assert not strangers(THERE)


def test_there_is_no_circle():
    assert not circle(THERE)


def test_the_list_has_no_edge_that_nobody_uses():
    used = {(module[0], target[0]) for module, found in THERE.items() for _, target in found if module[0] != target[0]}
    assert {(package, other) for package, others in EDGES.items() for other in others} == used


def test_the_whole_package_was_read():
    assert {("cli",), ("running", "experiments"), ("plot", "__init__")} <= set(THERE)
    assert ("running", "experiments") in {target for _, target in THERE["study", "sweep"]}
    assert ("running", "experiments") in {target for _, target in THERE["__init__",]}, "what is loaded on first use counts"


def edges_of(**files):
    return graph({tuple(name.split("__")): ast.parse(text) for name, text in files.items()})


@pytest.mark.parametrize("text", [
    "from ..running import experiments", "from ..running.experiments import run", "import vitro.running.experiments",
    "from vitro.running import experiments", "def late():\n    from ..running import experiments"])
def test_an_import_that_is_not_on_the_list_is_noticed(text):
    found = strangers(edges_of(base__process=text, running__experiments=""))
    assert len(found) == 1 and found[0].endswith("base may not import running (running.experiments)")


@pytest.mark.parametrize("files, length", [
    ({"plan__a": "from . import b", "plan__b": "def late():\n    from .a import x"}, 3),
    ({"plan__a": "from .b import x", "plan__b": "from .c import x", "plan__c": "from . import a"}, 4),
    ({"plan__a": "from ..running import b", "running__b": "", "running__c": "from ..plan import d", "plan__d": ""}, 3)])
def test_a_circle_is_noticed(files, length):
    assert len(circle(edges_of(**files))) == length


def test_a_chain_is_no_circle():
    assert not circle(edges_of(plan__a="from .b import x\nfrom .c import y", plan__b="from .c import y", plan__c=""))
