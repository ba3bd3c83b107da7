#!/usr/bin/env python3
"""Writes fixture.bin for blocks_test.cpp: blocks and their values as the `gguf` package has them.

    pip install gguf==0.19.0 numpy && python tests/engine/quant/fixture.py tests/engine/quant/fixture.bin

Records: name length u32, name, element count u32, float32 values, byte count u32, bytes. "quantise/F": the bytes are what
the package makes of the values. "dequantise/F": the values are what it reads from (random) bytes.
"""
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGML_QUANT_SIZES, quants

rng = np.random.default_rng(20240611)


def record(out, name, values, data):
    values, data = np.ascontiguousarray(values, dtype="<f4").reshape(-1), np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    out.write(struct.pack("<I", len(name)) + name.encode())
    out.write(struct.pack("<I", values.size) + values.tobytes())
    out.write(struct.pack("<I", data.size) + data.tobytes())


def inputs():
    """Rows that exercise rounding: Gaussian, tiny, huge, ties of magnitude, multiples of half a step, zeros, negatives."""
    rows = [rng.standard_normal(1024), 1e-3 * rng.standard_normal(1024), 1e-9 * rng.standard_normal(256), 3e4 * rng.standard_normal(256)]
    rows.append(rng.integers(-254, 255, 1024) / 2.0)
    rows.append(rng.choice([-1.0, 1.0, 0.5, 0.0], 512))
    rows.append(np.zeros(64))
    rows.append(np.float16(rng.standard_normal(2048)).astype(np.float32))
    rows.append(-np.abs(rng.standard_normal(64)))
    return np.concatenate(rows).astype(np.float32)


def main(path):
    with open(path, "wb") as out:
        values = inputs()
        for name, kind in (("f16", Type.F16), ("bf16", Type.BF16), ("q8_0", Type.Q8_0), ("q4_0", Type.Q4_0)):
            record(out, "quantise/" + name, values, quants.quantize(values, kind))
        for name, kind in (("q8_0", Type.Q8_0), ("q4_0", Type.Q4_0), ("q4_k", Type.Q4_K), ("q5_k", Type.Q5_K), ("q6_k", Type.Q6_K),
                           ("iq4_nl", Type.IQ4_NL), ("iq4_xs", Type.IQ4_XS)):
            elements, size = GGML_QUANT_SIZES[kind]
            blocks = rng.integers(0, 256, (12, size), dtype=np.uint8)
            scales = rng.standard_normal((12, 2)).astype("<f2").view(np.uint8)  # finite: random bits may be NaN
            if name == "q6_k":
                blocks[:, -2:] = scales[:, :2]
            else:
                blocks[:, : 4 if name in ("q4_k", "q5_k") else 2] = scales[:, : 4 if name in ("q4_k", "q5_k") else 2]
            record(out, "dequantise/" + name, quants.dequantize(blocks, kind), blocks)
        for name in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"):
            kind = Type[name.upper()]
            blocks = rng.integers(0, 256, (12, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
            scales = rng.standard_normal(12).astype("<f2").view(np.uint16)
            if name == "iq1_m":  # four bits of it in the upper end of each of the last four words
                for i in range(4):
                    blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (scales >> 4 * i & 15) << 4
            else:
                blocks[:, :2] = scales[:, None].view(np.uint8)
            record(out, "dequantise/" + name, quants.dequantize(blocks, kind), blocks)


if __name__ == "__main__":
    main(sys.argv[1])
