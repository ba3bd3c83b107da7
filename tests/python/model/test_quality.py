"""What quantisation costs the embedded models: paired over chunks of one text, so that small differences can be told from chance."""
import numpy as np
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.model.quality import compare, paired

MODELS = ROOT / "configs" / "models" / "embedded"
TEXT = MODELS / "eval.txt"
BOTH = [MODELS / "stories-reglu-3m.f16.gguf", MODELS / "stories-moe-6m.f16.gguf"]


def answer(*chunks):
    return {"chunks": [{"nll": nll, "tokens": tokens} for nll, tokens in chunks]}


def test_pairs_of_equal_chunks_have_the_error_of_a_mean():
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(2.8, 0.3, 40), rng.normal(2.8, 0.3, 40)
    found = paired(answer(*((100 * x, 100) for x in ours)), answer(*((100 * x, 100) for x in theirs)))
    gaps = ours - theirs
    assert found["difference"] == pytest.approx(gaps.mean())
    assert found["standard_error"] == pytest.approx(gaps.std(ddof=1) / np.sqrt(40))
    assert found["chunks"] == 40


def test_a_chunk_weighs_as_many_tokens_as_it_has():
    found = paired(answer((30, 10), (1, 1)), answer((20, 10), (3, 1)))
    assert found["difference"] == pytest.approx(8 / 11)
    assert paired(answer((3, 1), (0, 0)), answer((2, 1), (0, 0))) == {"difference": 1, "standard_error": None, "chunks": 1}


def test_models_that_cut_the_text_differently_are_no_pair():
    with pytest.raises(ConfigError, match="the same tokenizer"):
        paired(answer((1, 10)), answer((1, 9)))


@pytest.fixture(scope="module", ids=lambda path: path.name, params=[pytest.param(path, marks=pytest.mark.all) for path in BOTH])
def rows(request):
    """Each scheme once, by its name."""
    schemes = ("q4_0", "npu_int4_channel", "w4g32", "w4_channel", "w4g32z", "w3g32", "w3_channel", "w2g32", "w2_channel", "ternary",
               "w4_outliers")
    return {row["scheme"]: row for row in compare(request.param, TEXT, schemes)}


@pytest.mark.parametrize("channel, groups", [("npu_int4_channel", "q4_0"), ("w2_channel", "w2g32")])
def test_one_scale_per_channel_loses_to_groups(rows, channel, groups):
    """Test-time scaling, section 3.3; T-MAN, section 6.6: by more than chance. (With four bits and a searched scale the weights of
    these small models move further, but their likelihood does not tell.)"""
    found = paired(rows[channel], rows[groups])
    assert found["difference"] > 2 * found["standard_error"]


def test_outliers_apart_give_a_channel_back_what_one_scale_costs(rows):
    """PowerInfer-2, section 7.6: nearer to groups of 32 than to one scale per channel; here as near as groups are, or nearer."""
    found = paired(rows["w4_outliers"], rows["npu_int4_channel"])
    assert found["difference"] < -2 * found["standard_error"]
    beside_groups = paired(rows["w4_outliers"], rows["q4_0"])
    assert beside_groups["difference"] < 2 * beside_groups["standard_error"]
    assert rows["w4_outliers"]["relative_error"] < 0.9 * rows["w4_channel"]["relative_error"]


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_one_scale_per_channel_moves_weights_further(rows, bits):
    assert rows[f"w{bits}_channel"]["relative_error"] > 1.1 * rows[f"w{bits}g32"]["relative_error"]


def test_fewer_bits_cost_more(rows):
    assert rows["w4g32"]["nll"] < rows["w3g32"]["nll"] < rows["w2g32"]["nll"] < rows["ternary"]["nll"]


def test_weights_are_as_small_as_their_formats_say(rows):
    assert rows[None]["bits_per_weight"] == 16 and rows[None]["relative_error"] == 0
    # Rows of 256 to 768.
    for scheme, bits in (("w4g32", 4.5), ("w2g32", 2.5), ("w4g32z", 4.625), ("ternary", 2.057), ("w4_channel", 4.057)):
        assert rows[scheme]["bits_per_weight"] == pytest.approx(bits, abs=0.01), scheme


@pytest.mark.all
@pytest.mark.parametrize("model", BOTH, ids=lambda path: path.name)
def test_groups_that_follow_tiles_do_not_differ_from_ordinary_ones(tmp_path, native, model):
    """Test-time scaling, sections 5.1.1 and 7.3."""
    for scheme in ("q4_0", "q4_0_tile"):
        vitro.quantize(model, tmp_path / f"{scheme}.gguf", scheme)
    found = native("perplexity", "q4_0_tile.gguf", TEXT, "--against", "q4_0.gguf", "--json").json["paired"]
    assert found["chunks"] == 46 and found["standard_error"] > 0
    assert abs(found["difference"]) < 2 * found["standard_error"]
    assert "against q4_0.gguf" in native("perplexity", "q4_0_tile.gguf", TEXT, "--against", "q4_0.gguf").out


@pytest.mark.all
def test_the_table_is_printed(native):
    run = native("quality", BOTH[0], TEXT, "--scheme", "w4g64")
    assert run.code == 0 and run.out.count("w4g64") == 1 and "standard error" in run.out
    wrong = native("quality", BOTH[0], TEXT, "--scheme", "w9")
    assert wrong.code == 2 and 'there is no "w9"' in wrong.err
