"""The house rules hold, and each of them would notice if it did not."""
import pytest
import rules


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_holds(rule):
    assert not rules.violations(rule)


BREACHES = [
    (rules.engine_stands_alone, "engine/graph/a.cpp", "#include <systemc>\n"),
    (rules.engine_stands_alone, "engine/graph/a.cpp", "#include <tlm.h>\n"),
    (rules.engine_stands_alone, "engine/host/a.cpp", "#include <pybind11/pybind11.h>\n"),
    (rules.no_ambient_time_or_chance, "sim/a.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    (rules.no_ambient_time_or_chance, "engine/ffn/a.cpp", "int x = rand();\n"),
    (rules.no_ambient_time_or_chance, "hw_models/ufs/a.cpp", "std::random_device seed;\n"),
    (rules.no_ambient_time_or_chance, "tests/sim/a_test.cpp", "std::mt19937 rng(1);\n"),
    (rules.headers_have_pragma_once, "engine/base/a.hpp", "int f();\n"),
    (rules.short_lines, "engine/base/a.hpp", "x" * 141 + "\n"),
    (rules.short_lines, "vitro", "x" * 141 + "\n"),
    (rules.short_lines, "docs/a.md", "x" * 141 + "\n"),
    (rules.short_files, "engine/base/a.cpp", "int x;\n" * 301),
    (rules.short_files, "python/vitro/a.py", "x = 1\n" * 301),
    (rules.clean_whitespace, "docs/a.md", "text\r\n"),
    (rules.clean_whitespace, "engine/base/a.cpp", "int x; \n"),
    (rules.clean_whitespace, "engine/base/a.cpp", "\tint x;\n"),
    (rules.clean_whitespace, "engine/base/a.cpp", "int x;"),
    (rules.nothing_left_to_do, "engine/base/a.cpp", "// TODO: later\n"),
    (rules.no_machine_paths, "docs/a.md", "see /home/ann/vitro\n"),
    (rules.no_machine_paths, "configs/a.yaml", "model: ../../shared/models/a.gguf\n"),
    (rules.links_resolve, "docs/a.md", "see [the rest](nowhere.md)\n"),
    (rules.named_paths_exist, "docs/a.md", "`tests/python/test_forgotten.py` shows it\n"),
    (rules.named_paths_exist, "docs/a.md", "see `engine/forgotten` and `configs/kernels/forgotten-*.yaml`\n"),
    (rules.tests_are_built, "tests/engine/base/forgotten_test.cpp", "\n"),
    (rules.has_a_test, "engine/base/forgotten.cpp", "\n"),
]


@pytest.mark.parametrize("rule, path, text", BREACHES)
def test_notices(rule, path, text):
    assert list(rule(path, text))


LAWFUL = [
    (rules.engine_stands_alone, "sim/a.cpp", "#include <systemc>\n"),
    (rules.no_ambient_time_or_chance, "engine/host/a.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    (rules.no_ambient_time_or_chance, "engine/ffn/a.cpp", '// never call rand() or steady_clock::now\nlog("rand()"); operand(x);\n'),
    (rules.short_lines, "engine/base/a.hpp", "x" * 140 + "\n"),
    (rules.short_lines, "docs/a.md", "| " + "x" * 141 + " |\n"),
    (rules.short_files, "engine/base/a.cpp", "int x;\n// about x\n\n" * 300),
    (rules.short_files, "engine/base/a.cpp", "// Long because every name has its row.\n" + "int x;\n" * 301),
    (rules.no_machine_paths, "docs/a.md", "https://example.org/home/ann and out/work/x\n"),
    (rules.named_paths_exist, "docs/a.md", "`engine/base/rng`, `engine/base/`, `configs/kernels/cpu-*.yaml`, `engine/ops/<name>.cpp`, tests/nowhere\n"),
    (rules.named_paths_exist, "docs/results/a.md", "their `tools/pipeline.py`\n"),
    (rules.tests_are_built, "tests/engine/base/rng_test.cpp", "\n"),
    (rules.has_a_test, "engine/base/rng.cpp", "\n"),
    (rules.has_a_test, "engine/base/hash.cpp", "\n"),
    (rules.has_a_test, "python/bindings/forgotten.cpp", "\n"),
    (rules.links_resolve, "docs/a.md", "[here](index.md#top) and [there](https://example.org/x)\n"),
]


@pytest.mark.parametrize("rule, path, text", LAWFUL)
def test_lets_pass(rule, path, text):
    assert not list(rule(path, text))


def test_every_rule_is_shown_to_notice_something():
    assert {rule for rule, _, _ in BREACHES} == set(rules.RULES)


def test_looks_at_the_real_tree():
    assert {"engine/machine/machine.hpp", "CMakeLists.txt", "vitro", "python/vitro/cli.py"} <= set(rules.files())


def test_what_says_to_be_tested_elsewhere_is_there_and_has_no_test_of_its_own():
    known, listed = set(rules.files()), rules.tested_by()
    assert set(listed) <= known and set(listed.values()) <= known
    assert not [source for source in listed if rules.mirror(source).is_file()]


def test_a_source_is_tested_by_the_line_above_it():
    assert rules.tested_by("# heading\na_test.cpp: what it shows\n  a.cpp b.cpp\n  c.cpp\n\nd.py: other\n  e.cpp\n") == {
        "a.cpp": "a_test.cpp", "b.cpp": "a_test.cpp", "c.cpp": "a_test.cpp", "e.cpp": "d.py"}
