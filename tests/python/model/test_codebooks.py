"""Files in GGUF's codebook formats whose blocks are random bytes, against the NumPy oracle with the values that the gguf package reads."""
import gguf
import numpy as np
import pytest
import random_files

FORMATS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")


def random_rows(kind, shape, rng):
    """Any bytes are a block; d is set so that values are as large as trained ones."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // elements, size), dtype=np.uint8)
    set_d(kind, blocks, np.ones(len(blocks)))
    each = np.std(gguf.quants.dequantize(blocks, kind))
    set_d(kind, blocks, 0.08 / each * rng.uniform(0.5, 1, len(blocks)))
    return blocks.reshape(shape[0], -1)


def set_d(kind, blocks, d):
    halves = d.astype("<f2")
    if kind != gguf.GGMLQuantizationType.IQ1_M:
        blocks[:, :2] = halves[:, None].view(np.uint8)
        return
    for i in range(4):  # four bits in the upper end of each of the last four words
        blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (halves.view(np.uint16) >> 4 * i & 15) << 4


@pytest.fixture(scope="module", params=FORMATS)
def case(request, tmp_path_factory, has_native):
    return random_files.case(request.param, tmp_path_factory.mktemp(request.param), random_rows)


def test_likelihood_is_that_of_the_values(case, tmp_path):
    random_files.expect_likelihood(*case, tmp_path)


def test_both_machines_and_both_layouts_generate_the_same_tokens(case):
    random_files.expect_same_tokens(case[1])
