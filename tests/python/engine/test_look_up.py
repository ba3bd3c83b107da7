"""engine.kernels: lut_w2 and its like, from `vitro quantize` to tokens on both machines."""
import pytest
from conftest import ROOT

MODEL = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"


def arguments(model, kernels, machine="host"):
    settings = {"model.gguf": model, "engine.activations": "int8", "engine.kernels": kernels, "workload.output_tokens": 12, "sweep": "{}"}
    return ["run", QUICKSTART, "--json", "--machine", machine,
            *(part for item in settings.items() for part in ("--set", "=".join(map(str, item))))]


@pytest.mark.parametrize("scheme, kernels", [pytest.param("w2g64z", "lut_w2", marks=pytest.mark.all), ("w4g64z", "lut_w4")])
def test_look_ups_and_dot_products_give_equal_tokens_on_both_machines(native, tmp_path, scheme, kernels):
    model = tmp_path / f"{scheme}.gguf"
    native("quantize", MODEL, model, "--scheme", scheme)
    runs = [native(*arguments(model, name, machine)).json["tokens"]
            for name, machine in ((kernels, "host"), ("dot", "host"), (kernels, "sim"), ("dot", "sim"))]
    assert len(runs[0]) == 12 and runs == 4 * runs[:1]


def test_a_width_that_the_model_has_not_is_the_users_mistake(native):
    refused = native(*arguments(MODEL, "lut_w2"))
    assert refused.code == 2 and "engine.products.code_bits: 2: the model has no 2-bit matrix" in refused.err
    floats = native(*arguments(MODEL, "lut_w2"), "--set", "engine.activations=float")
    assert floats.code == 2 and "engine.kernels: lut needs int8 activations" in floats.err
