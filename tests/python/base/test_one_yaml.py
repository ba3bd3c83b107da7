"""One dialect of YAML: experiments, which the engine reads, and maps and figures, which Python reads."""
import pytest
import yaml
from conftest import ROOT
from vitro.base.trees import load_yaml
from vitro.errors import ConfigError

HOSTILE = {
    "laughs": "a: &a [1, 1, 1, 1]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefghijk", "bcdefghijkl")),
    "merges": "a: &a {x: 1}\n" + "".join(f"{b}: &{b} {{<<: [*{a}, *{a}], p{b}: *{a}, q{b}: *{a}}}\n" for a, b in
                                         zip([f"n{i}" if i else "a" for i in range(40)], [f"n{i + 1}" for i in range(40)])),
    "long": f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 2000)}]\n",
    "inside": "a: &a {b: *a}\n", "unknown": "a: *nothing\n", "twice": "a: 1\na: 2\n", "no map": "a: &a 1\nb: {<<: *a}\n",
    "two": "a: 1\n---\nb: 2\n", "deep": "a: " + "[" * 5000, "list as key": "? [a]\n: 1\n"}


def test_maps_of_papers_mean_what_they_did(native):
    for path in sorted((ROOT / "experiments" / "papers").glob("*/map.yaml")):
        read, known = load_yaml(path), yaml.safe_load(path.read_text())
        assert list(read) == list(known) and list(read["entries"]) == list(known["entries"])
        runs = [{key: row.get("runs") for key, row in each["entries"].items()} for each in (read, known)]
        assert runs[0] == runs[1]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_a_message_with_their_line(native, tmp_path, name):
    path = tmp_path / "hostile.yaml"
    path.write_text(HOSTILE[name])
    with pytest.raises(ConfigError, match=r"hostile\.yaml:?\d*: "):
        load_yaml(path)
    answer = native("run", path)
    assert answer.code == 2 and "hostile.yaml" in answer.err


def test_words_are_words_and_copies_are_copies(native, tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("a: &a {on: off, n: 1e-5, day: 2024-01-01, none: ~}\nb: {<<: *a, n: yes}\nc: [*a, 'true', true]\n")
    a = {"on": "off", "n": 1e-5, "day": "2024-01-01", "none": None}
    assert load_yaml(path) == {"a": a, "b": a | {"n": "yes"}, "c": [a, "true", True]}


def test_an_experiment_may_say_the_same_once(native, tmp_path):
    path = tmp_path / "exp.yaml"
    path.write_text(f"""experiment: once
machine: host
model: &model {{gguf: {ROOT}/configs/models/embedded/stories-reglu-3m.f16.gguf}}
engine: {{threads: 1}}
workload:
  <<: {{prompt: Once, output_tokens: 9}}
  output_tokens: &n 2
  seed: *n
""")
    answer = native("run", path, "--json")
    assert answer.code == 0 and len(answer.json["tokens"]) == 2
