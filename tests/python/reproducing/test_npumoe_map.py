"""The map of NPUMoE: what the paper says of its systems is in their runs, and every run resolves in both readings."""
import pytest
import vitro
from vitro.reproducing import paper as reproducing
from vitro.reproducing import paper_map as maps

READ = {reading: maps.load("npumoe", reading=reading) for reading in maps.READINGS}


def resolved(words, reading="published"):
    return vitro.resolve(READ[reading].experiment, overrides=READ[reading].overrides(words))["engine"]


@pytest.mark.parametrize("reading", maps.READINGS)
def test_every_run_resolves(native, reading):
    mapped = READ[reading]
    for words in sorted({words for asked in (*mapped.questions, *mapped.checks) for words in reproducing.words_of(asked)}):
        assert vitro.resolve(mapped.experiment, overrides=mapped.overrides(words))["engine"]["function"] == "draw", words


def test_as_published_decoding_takes_the_way_of_the_prompt(native):
    """5.8, Limitation: decode follows the same execution pipeline as prefill."""
    assert resolved("ours p1024 c512 decode")["ffn"]["experts"]["graph_rows"] == 1
    assert "graph_rows" not in resolved("ours p1024 c512 decode", "fair")["ffn"]["experts"]
    assert "graph_rows" not in resolved("ours p1024 c512")["ffn"]["experts"]
    ended = [asked.id for asked in READ["published"].questions if "e2e" in asked.id]
    assert ended and all(any("ours" in words and "decode" in words for words in reproducing.words_of(asked))
                         for asked in READ["published"].questions if asked.id in ended)


@pytest.mark.parametrize("reading", maps.READINGS)
def test_attention_on_an_engine_has_static_shapes(native, reading):
    for words in ("ours p1024 c512", "anemll p1024 c256", "ours qwen3 p4096 c1024", "anemll tiny m2max p1024 c512"):
        placement = resolved(words, reading)["placement"]
        assert (placement["kind"], placement["attention_keys"]) == ("chunk_attention", "chunks"), words


def test_qwen3_is_a_range_over_prompts_and_chunks_with_what_is_dropped_beside_its_speed():
    for asked in READ["published"].questions:
        if asked.id.startswith(("npumoe_table6", "npumoe_table7")) and asked.formula:
            assert asked.answer["fold"] == "range" and asked.status == "reserved"
            assert {(words.split()[-2], words.split()[-1]) for words in reproducing.words_of(asked)} == {
                (prompt, chunk) for prompt in ("p1024", "p4096") for chunk in ("c256", "c512", "c1024")}
    beside = {asked.id for asked in READ["published"].questions if asked.beside}
    assert {"npumoe_qwen3_speedup_s52", "npumoe_table6_qwen3.ours.speedup", "npumoe_table6_ours_wall"} <= beside
