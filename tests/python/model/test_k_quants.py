"""Files in K-quants whose blocks are random bytes, against the NumPy oracle with the values that the gguf package reads from them."""
import gguf
import numpy as np
import pytest
import random_files

HALVES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_XS": (0,)}  # where a block has binary16 values
SCALE = {"Q4_K": 1.2e-4, "Q5_K": 6e-5, "Q6_K": 5e-5, "IQ4_XS": 6e-5}        # of random codes and scales: values as trained ones


def random_rows(kind, shape, rng):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
    for at in HALVES[kind.name]:
        blocks[..., at:at + 2] = (SCALE[kind.name] * rng.uniform(0.5, 1, blocks.shape[:2])).astype("<f2")[..., None].view(np.uint8)
    return blocks.reshape(shape[0], -1)


@pytest.fixture(scope="module", params=HALVES)
def case(request, tmp_path_factory, has_native):
    return random_files.case(request.param, tmp_path_factory.mktemp(request.param), random_rows)


def test_likelihood_is_that_of_the_values(case, tmp_path):
    random_files.expect_likelihood(*case, tmp_path)


def test_both_machines_and_both_layouts_generate_the_same_tokens(case):
    random_files.expect_same_tokens(case[1])
