"""Tasks with exact answers: what is read, how answers are compared, and what comes out."""
import csv
import json
import re

import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.study.tasks import GOLD, NUMBER, extracted, read_tasks, same, summary

EMBEDDED = ROOT / "configs" / "models" / "embedded"
EXPERIMENT = f"""
experiment: tasks
machine: host
model: {{gguf: {EMBEDDED}/stories-reglu-3m.q4_0.gguf}}
engine: {{threads: 1}}
workload: {{output_tokens: 3, sampling: {{temperature: 1}}}}
"""
SWEPT = EXPERIMENT + "sweep: {workload.scaling.method: best_of_n, workload.scaling.samples: [1, 4]}\n"


def lines(folder, *rows):
    file = folder / "tasks.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return file


@pytest.mark.parametrize("found, answer, equal", [
    ("72", "72", True), ("1,200.0", "1200", True), ("$5", "5", True), ("7.", "7", True), ("-3", "3", False), ("72", "73", False),
    (None, "1", False), (" Ball ", "ball", True), ("ball", "doll", False), ("nan", "nan", True), ("1e3", "1000", True)])
def test_numbers_are_compared_by_value_and_texts_by_letters(found, answer, equal):
    assert same(found, answer) is equal


@pytest.mark.parametrize("pattern, text, found", [
    (NUMBER, "so 3 + 4 = 7, and 1,250.5 in all.", "1,250.5"), (NUMBER, "none", None), (r"\w+", "a b", "b"), (r"x(\d)", "x1 x2", "2"),
    (GOLD, "He sold 48/2 = <<48/2=24>>24 clips.\n#### 72", "72"), (GOLD, "  ball\n", "ball"), (GOLD, "#### 1,000 ", "1,000")])
def test_the_last_match_is_the_answer(pattern, text, found):
    assert extracted(re.compile(pattern), text) == found


def test_lines_as_gsm8k_has_them(tmp_path):
    file = lines(tmp_path, {"question": "How many?", "answer": "Half of 48.\n#### 24"}, "", {"question": "And?", "answer": 5})
    first, second = read_tasks(file, template="Question: {question} Answer:")
    assert (first.prompt, first.answer, first.line) == ("Question: How many? Answer:", "24", 1)
    assert (second.answer, second.line) == ("5", 3)
    assert len(read_tasks(file, template="{question}", limit=1)) == 1


@pytest.mark.parametrize("row, said", [
    ("{", "tasks.jsonl:2: is not JSON"), ("[1]", r"tasks.jsonl:2: \[1\] \(expected an object\)"),
    ('{"prompt": "a"}', 'tasks.jsonl:2: "answer" is missing'), ('{"prompt": "a", "answer": [1]}', r'tasks.jsonl:2: "answer" is \[1\]'),
    ('{"question": "a", "answer": "1"}', r"tasks.jsonl:2: the template '{prompt}' does not fit: 'prompt' \(there are question, answer\)"),
    ('{"prompt": "a", "answer": ' + "9" * 5000 + "}", "tasks.jsonl:2: can not be read as JSON"),
    ('{"prompt": "a", "answer": ' + "[" * 100_000, "tasks.jsonl:2: can not be read as JSON"),
    ('{"prompt": "a", "answer": " "}', 'tasks.jsonl:2: "answer" has no match')])
def test_what_is_wrong_with_a_line_is_said(tmp_path, row, said):
    with pytest.raises(ConfigError, match=said):
        read_tasks(lines(tmp_path, {"prompt": "a", "answer": "1"}, row))


def test_other_bad_input(tmp_path):
    with pytest.raises(ConfigError, match="holds no task"):
        read_tasks(lines(tmp_path, ""))
    (tmp_path / "tasks.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_tasks(tmp_path / "tasks.jsonl")
    for template in ("{", "{prompt[x]}", "{prompt:>99999999999999}"):
        with pytest.raises(ConfigError, match="tasks.jsonl:1: the template .* does not fit"):
            read_tasks(lines(tmp_path, {"prompt": [1], "answer": "1"}), template=template)
    with pytest.raises(ConfigError, match="gold: .* is no regular expression"):
        read_tasks(lines(tmp_path, {"prompt": "a", "answer": "1"}), gold="(")


def test_errors_are_those_of_a_share_and_never_nothing():
    rows = [{"right": right, "latency_ms": 2, "energy_j": None, "tokens": 4} for right in (True, False, False, False)]
    found = summary(rows)
    assert (found["tasks"], found["accuracy"], found["latency_ms"], found["energy_j"]) == (4, 0.25, 2, None)
    assert summary([{**row, "right": False} for row in rows])["standard_error"] > 0.1


def test_each_point_answers_each_task(native, tmp_path):
    file = lines(tmp_path, *({"prompt": f"Tom had a {thing}. Tom lost the {thing}. He looked for the", "answer": thing}
                             for thing in ("ball", "car", "doll")))
    answer = native("tasks", native.write(SWEPT), file, "--answer", r"^\W*(\w+)", "--out", "o", "--json")
    assert answer.code == 0, answer.err
    assert [row["point"] for row in answer.json["rows"]] == ["method best_of_n, samples 1", "method best_of_n, samples 4"]
    with open(tmp_path / "o/answers.csv", newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 6
    for row in rows:
        assert (row["right"] == "True") == (row["found"].lower() == row["answer"])
        assert re.match(r"\W*(\w+)", row["text"]).group(1) == row["found"]
    for index, row in enumerate(answer.json["rows"]):
        assert row["accuracy"] == pytest.approx(sum(item["right"] == "True" for item in rows[3 * index:3 * index + 3]) / 3)
        assert row["latency_ms"] > 0 and row["tokens"] >= 3
    assert (tmp_path / "o/accuracy.png").stat().st_size > 10000
    single = vitro.run(EXPERIMENT, overrides={"workload.prompt": "Tom had a car. Tom lost the car. He looked for the",
                                              "workload.scaling": {"method": "best_of_n", "samples": 4}})
    assert rows[4]["text"] == single.text


@pytest.mark.all
def test_a_program_may_judge(native, tmp_path):
    judge = tmp_path / "judge.py"
    judge.write_text("#!/usr/bin/env python3\nimport json, sys\ngiven = json.load(sys.stdin)\n"
                     "sys.exit({'yes': 0, 'no': 1, 'what': 7}[given['task']['answer']])\n")
    judge.chmod(0o755)
    experiment, rows = native.write(EXPERIMENT), [{"prompt": "One day", "answer": say} for say in ("yes", "no", "no", "no")]
    answer = native("tasks", experiment, lines(tmp_path, *rows), "--check", judge, "--out", "o", "--json")
    assert answer.code == 0 and answer.json["rows"][0]["accuracy"] == 0.25
    answer = native("tasks", experiment, lines(tmp_path, {"prompt": "a", "answer": "what"}), "--check", judge, "--out", "o")
    assert answer.code == 1 and "left with 7 for the task of line 1" in answer.err
    answer = native("tasks", experiment, lines(tmp_path, *rows), "--check", tmp_path / "none", "--out", "o")
    assert answer.code == 2 and "No such file" in answer.err


def test_a_policy_in_python_is_used_for_each_task(native, tmp_path):
    (tmp_path / "mine.py").write_text('import vitro\n\n\nclass Still(vitro.Eviction):\n    """gives nothing up"""\n\n'
                                      '    name = "still"\n\n    def victim(self, held):\n        return None\n')
    text = EXPERIMENT.replace("{threads: 1}", "{policy: neuron_cluster, weights: {eviction: still}}").replace("host", "sim")
    path = native.write(f"{text}device: {ROOT / 'configs/devices/oneplus12.yaml'}\nmemory: {{ffn_in_dram: 50%}}\n")
    words = ("tasks", path, lines(tmp_path, {"prompt": "One day", "answer": 1}), "--out", "o", "--json")
    answer = native(*words, "--policy", "mine.py:Still")
    assert answer.code == 0 and answer.json["rows"][0]["tasks"] == 1, answer.err
    refused = native(*words)
    assert refused.code == 2 and "still" in refused.err
