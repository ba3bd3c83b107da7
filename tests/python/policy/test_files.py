"""Policies on the command line and in sweeps: named by file and class, stored by content, isolated where they fail."""
import json
import shutil
import subprocess
import sys

import pytest
import pyrules
import vitro
from conftest import ROOT
from test_classes import neurons
from vitro.policy.files import load

RULES = ROOT / "tests" / "python" / "policy" / "pyrules.py"


def vitro_command(native, *words):
    return subprocess.run([sys.executable, "-m", "vitro", *map(str, words)], env=native.env, cwd=native.folder, capture_output=True,
                          text=True, timeout=300)


def written(native, **sweep):
    path = native.folder / "exp.json"
    path.write_text(json.dumps(neurons("sim", "lru") | ({"sweep": sweep} if sweep else {})))
    return path


def test_the_command_line_runs_one(native):
    shutil.copy(RULES, native.folder / "mine.py")
    answer = vitro_command(native, "run", written(native), "--policy", "mine.py:PyLru", "--set", "engine.weights.eviction=py_lru",
                           "--twice", "--json")
    assert answer.returncode == 0, answer.stderr
    result = json.loads(answer.stdout)
    assert result["event_hash"] == vitro.run(neurons("sim", "lru"))["event_hash"] and result["policies"][0]["name"] == "py_lru"


@pytest.mark.parametrize("word, message", [("mine.py", "expected FILE.py:CLASS"), ("none.py:Rule", "none.py: no such file"),
                                           ("mine.py:Missing", "mine.py has no Missing"), ("mine.py:vitro", "is not a policy"),
                                           ("broken.py:Rule", "broken.py can not be loaded: ZeroDivisionError"),
                                           ("ends.py:Rule", "ends.py can not be loaded: SystemExit: 3"),
                                           ("taken.py:Rule", '--policy: taken.py:Rule: policies: Rule.name is "lru" (expected another')])
def test_a_word_that_names_no_policy_is_refused(native, word, message):
    shutil.copy(RULES, native.folder / "mine.py")
    (native.folder / "broken.py").write_text("1 / 0\n")
    (native.folder / "ends.py").write_text("raise SystemExit(3)\n")
    (native.folder / "taken.py").write_text("from mine import PyLru\n\nclass Rule(PyLru):\n    name = 'lru'\n")
    answer = vitro_command(native, "run", written(native), "--policy", word, "--out", "out")
    assert answer.returncode == 2 and message in answer.stderr and "Traceback" not in answer.stderr
    assert not (native.folder / "out").exists()


CACHED = """
import functools
import random
import vitro

@functools.lru_cache(maxsize=None)
def deep(block):
    return 0 if block == 0 else 1 + deep(block - 1) if block < 5 else block

class Named:
    def __reduce__(self):
        return "NAMED"

NAMED = Named()

class Rule(vitro.Eviction):
    def victim(self, held):
        return min((block for block in range(self.blocks) if block in self.there and not held(block)), key=deep, default=None)

    def setup(self):
        self.there = set()

    def insert(self, block):
        self.there.add(block)

    def erase(self, block):
        self.there.discard(block)

class ByName(Rule):
    def setup(self):
        super().setup()
        assert NAMED
"""


def test_what_pickle_knows_by_name_alone_is_sent_or_named(native):
    (native.folder / "mine.py").write_text(CACHED)
    (native.folder / "main.py").write_text(CACHED + f"\nvitro.run({neurons('sim', 'Rule')!r}, policies=[Rule])\nprint('ran')\n")
    path = written(native)
    answer = vitro_command(native, "run", path, "--policy", "mine.py:Rule", "--set", "engine.weights.eviction=Rule")
    assert answer.returncode == 0, answer.stderr
    answer = vitro_command(native, "run", path, "--policy", "mine.py:ByName", "--set", "engine.weights.eviction=ByName")
    assert answer.returncode == 2 and "policies: NAMED of vitro_policy_mine is not known in the run's process" in answer.stderr
    answer = subprocess.run([sys.executable, "main.py"], env=native.env, cwd=native.folder, capture_output=True, text=True, timeout=300)
    assert answer.stdout == "ran\n", answer.stderr


def test_a_class_of_a_file_is_the_class(native):
    (policy,) = load([f"{RULES}:PyLru"])
    assert vitro.run(neurons("sim", "py_lru"), policies=[policy])["event_hash"] == vitro.run(neurons("sim", "lru"))["event_hash"]


def test_a_policy_that_fails_costs_its_points_and_no_others(native):
    tree = neurons("sim", "lru") | {"sweep": {"engine.weights.eviction": ["lru", "raises", "py_lru", "moody", "absent"]}}
    brought = [pyrules.PyLru, pyrules.Raises, pyrules.Moody, pyrules.Absent]
    frame = vitro.sweep(tree, out=native.folder / "out", policies=brought, twice=True)
    assert list(frame["status"] == "failed") == [False, True, False, True, True]
    for word, row in (("raises (Raises) failed", 1), ("moody decides differently", 3), ("absent (Absent): victim()", 4)):
        assert word in frame["error"][row]
    assert frame["decode_tokens_per_s"][0] == frame["decode_tokens_per_s"][2]
    again = vitro.sweep(tree, out=native.folder / "out", policies=brought, resume=True)
    assert list(again["status"] == "failed") == [False, True, False, False, True], "only what had failed ran again, and once"


def test_a_stored_point_knows_the_class_that_made_it(native):
    class Rule(pyrules.PyLru):
        name = "rule"
    tree = neurons("sim", "lru") | {"sweep": {"engine.weights.eviction": ["lru", "rule"]}}

    def when(policy):
        frame = vitro.sweep(tree, out=native.folder / "out", policies=[policy], resume=True)
        rows = vitro.rows(native.folder / "out")
        return list(frame["identity"]), len(rows)
    first, count = when(Rule)
    assert when(Rule) == (first, 2) and count == 2

    class Changed(pyrules.PyLru):
        name = "rule"

        def victim(self, held):
            return next((block for block in reversed(self.order) if not held(block)), None)
    second, count = when(Changed)
    assert second[0] == first[0] and second[1] != first[1] and count == 3, "the row of lru stays"


@pytest.mark.all
def test_points_with_policies_run_on_a_cluster_of_processes(native):
    pytest.importorskip("distributed")
    tree = neurons("sim", "lru") | {"sweep": {"engine.weights.eviction": ["lru", "py_lru"]}}
    frame = vitro.sweep(tree, out=native.folder / "out", policies=[pyrules.PyLru], on="dask", workers=1)
    assert (frame["status"] != "failed").all() and frame["decode_tokens_per_s"].nunique() == 1


def test_a_search_may_choose_among_rules(native):
    pytest.importorskip("optuna")
    search = {"design": "search", "trials": 4, "batch": 4, "objectives": {"decode_tokens_per_s": "maximize"},
              "over": {"engine.weights.eviction": ["lru", "py_lru"]}}
    tree = neurons("sim", "lru") | {"sweep": search}
    frame = vitro.search(tree, out=native.folder / "out", policies=[pyrules.PyLru])
    assert (frame["status"] != "failed").all() and set(frame["engine.weights.eviction"]) == {"lru", "py_lru"}
    assert frame["decode_tokens_per_s"].nunique() == 1
