"""Each fuzz target has a dictionary of the words that its reader knows today, and a corpus that is small."""
import sys

import pytest
from conftest import ROOT
from vitro.base import native

sys.path.insert(0, str(ROOT / "tools"))
import fuzz_dictionaries  # noqa: E402

FUZZ = ROOT / "tests" / "fuzz"
TARGETS = sorted(path.stem for path in FUZZ.glob("*_fuzz.cpp"))


@pytest.mark.parametrize("target", TARGETS)
def test_the_committed_one_is_what_the_sources_say(target):
    said = f"python tools/fuzz_dictionaries.py tests/fuzz writes {target}.dict anew"
    assert (FUZZ / f"{target}.dict").read_text() == fuzz_dictionaries.dictionary(target), said


def test_words_are_those_of_the_readers():
    keys = {"llama", "general.architecture", "tokenizer.ggml.tokens", "ffn_gate.weight", "qwen3moe"}
    assert keys <= set(fuzz_dictionaries.words("gguf_fuzz"))
    assert {"engine", "prompt", "output_tokens", "neuron_cluster"} <= set(fuzz_dictionaries.words("experiment_fuzz"))
    assert all(line.isascii() and line[0] in '"#' and line.count('"') in (0, 2)
               for target in TARGETS for line in fuzz_dictionaries.dictionary(target).splitlines())


@pytest.mark.parametrize("target", TARGETS)
def test_a_corpus_is_there_and_small(target):
    sizes = [path.stat().st_size for path in (FUZZ / target).iterdir()]
    assert len(sizes) > 1 or target == "lora_fuzz"
    assert max(sizes) <= 16384 and sum(sizes) <= 80 * 1024, sizes  # -max_len of the stage


def test_there_is_a_model_of_each_family(has_native):
    text = (ROOT / "engine" / "model" / "model_family.cpp").read_text()
    wanted = {line.split('.architecture = "')[1].split('"')[0] for line in text.splitlines() if ".architecture" in line}
    seeds = {path.stem for path in (FUZZ / "gguf_fuzz").iterdir()}
    assert wanted - seeds == {"bitnet", "bitnet-25"}, "other names of bitnet-b1.58"
    for family in wanted & seeds:
        assert "digraph" in native.call("graph_dot", str(FUZZ / "gguf_fuzz" / f"{family}.gguf"))
