"""A class is the same where its code and what that refers to are the same."""
import subprocess
import sys
import textwrap

import pytest
import vitro
from vitro.policy.content import content_of

RULE = """
import vitro

LIMIT = 3
TABLE = {"a": [1, 2]}

def helper(block):
    return block % LIMIT

class Rule(vitro.Eviction):
    weight = 0.5

    def victim(self, held):
        return next((b for b in range(self.blocks) if helper(b) == len(TABLE["a"]) and not held(b)), None)
"""


def content(text):
    scope = {"__name__": "__main__"}
    exec(compile(textwrap.dedent(text), "<cell>", "exec"), scope)
    return content_of(scope["Rule"])


@pytest.mark.parametrize("old, new", [("LIMIT = 3", "LIMIT = 4"), ("[1, 2]", "[1, 2, 3]"), ("weight = 0.5", "weight = 0.25"),
                                      ("block % LIMIT", "block // LIMIT"), ("and not held(b)", "and held(b)"), ("== len", "!= len"),
                                      ("class Rule(vitro.Eviction)", "class Other(vitro.Eviction):\n    pass\n\nclass Rule(Other)")])
def test_whatever_it_refers_to_changes_it(old, new):
    assert old in RULE and content(RULE.replace(old, new)) != content(RULE)


def test_comments_places_and_texts_for_people_do_not():
    assert content("\n\n# moved\n" + RULE.replace("% LIMIT", "% LIMIT  # of what")) == content(RULE)
    assert content(RULE.replace("    weight", '    """says what"""\n    weight')) == content(RULE)
    assert content(RULE + "\nunused = 1\n") == content(RULE)


def test_it_is_the_same_in_another_process():
    code = f"from vitro.policy.content import content_of\nexec({RULE!r})\nprint(content_of(Rule))"
    told = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)}
    assert told == {content(RULE)}


def test_a_module_beside_it_counts_by_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = RULE.replace("import vitro\n", "import vitro\nimport beside_a_rule\n").replace("helper(b) ==", "beside_a_rule.f(b) ==")
    found = []
    for body in ("return block", "return block + 1"):
        (tmp_path / "beside_a_rule.py").write_text(f"def f(block):\n    {body}\n")
        sys.modules.pop("beside_a_rule", None)
        found.append(content(text))
    assert len(set(found)) == 2
    sys.modules.pop("beside_a_rule", None)


@pytest.mark.parametrize("importing", ["import far_{0}", "from far_{0} import LIMIT", "def g():\n    import far_{0}",
                                       "import far_package_{0}.part"])
def test_what_a_module_imports_in_turn_counts(tmp_path, monkeypatch, importing):
    monkeypatch.syspath_prepend(tmp_path)
    mark = tmp_path.name  # what one test has imported stays imported
    far = tmp_path / (f"far_package_{mark}/part.py" if "package" in importing else f"far_{mark}.py")
    far.parent.mkdir(exist_ok=True)
    (tmp_path / f"near_{mark}.py").write_text(f"{importing.format(mark)}\n\ndef f(block):\n    return block\n")
    text = RULE.replace("import vitro\n", f"import vitro\nimport near_{mark}\n").replace("helper(b) ==", f"near_{mark}.f(b) ==")
    found = []
    for limit in (1, 1, 2):
        far.write_text(f"LIMIT = {limit}\n")
        found.append(content(text))
    assert found[0] == found[1] != found[2]


def test_a_module_of_a_package_that_code_names_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "named_package").mkdir()
    text = RULE.replace("import vitro\n", "import vitro\nimport named_package.part\n").replace("helper(b) ==", "named_package.part.f(b) ==")
    found = []
    for limit in (1, 2):
        (tmp_path / "named_package/part.py").write_text(f"def f(block):\n    return {limit}\n")
        found.append(content(text))
    assert len(set(found)) == 2


WRAPPED = """
import dataclasses
import enum
import functools
import vitro

@functools.lru_cache
def cached(block):
    return block % 3

def halves(block, by):
    return block // 2

class Kind(enum.IntEnum):
    FIRST = 1

    def worth(self, block):
        return block + 5

@dataclasses.dataclass
class Scale:
    by: int = 7

    def of(self, block):
        return block * self.by

class Rule(vitro.Eviction):
    scale = Scale()
    half = functools.partial(halves, by=11)
    kind = Kind.FIRST
    kinds = {Kind.FIRST}
    known = functools.partial(cached)

    def victim(self, held):
        return cached(self.scale.of(self.half(0)))
"""


@pytest.mark.parametrize("old, new", [("block % 3", "block % 4"), ("block // 2", "block // 3"), ("by=11", "by=12"),
                                      ("by: int = 7", "by: int = 8"),
                                      ("block * self.by", "block - self.by"), ("block + 5", "block + 6"), ("FIRST = 1", "FIRST = 2")])
def test_what_is_wrapped_or_an_object_of_a_class_counts(old, new):
    assert old in WRAPPED and content(WRAPPED) == content(WRAPPED) != content(WRAPPED.replace(old, new))


def test_circles_end_and_closures_count():
    def made(limit):
        class Rule(vitro.Eviction):
            def victim(self, held):
                return limit if Rule else None
        return Rule
    assert content_of(made(1)) == content_of(made(1)) != content_of(made(2))


def test_what_can_not_be_compared_is_never_the_same():
    class Rule(vitro.Eviction):
        lock = open("/dev/null")

        def victim(self, held):
            return None
    assert content_of(Rule) != content_of(Rule)
    Rule.lock.close()
