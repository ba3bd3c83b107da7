"""engine.units: gpu on the command line: OpenCL kernels with the tokens of a core, messages without a device, and the simulated GPU."""
import platform
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, opencl_platforms

MODELS = ROOT / "configs" / "models" / "embedded"
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"


needs_device = pytest.mark.skipif(not opencl_platforms(), reason="needs an OpenCL device, such as Debian's pocl-opencl-icd")


def arguments(units, model=MODELS / "stories-reglu-3m.q4_0.gguf", machine="host", **settings):
    settings = {"engine.units": units, "model.gguf": model, "workload.output_tokens": 12, "sweep": "{}"} | settings
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["run", QUICKSTART, "--json", "--machine", machine, *overrides]


@pytest.fixture(scope="module")
def quantised(tmp_path_factory, has_native):
    """(model, scheme) -> a file of an embedded model in that scheme."""
    folder = tmp_path_factory.mktemp("models")

    def file(model, scheme):
        out = folder / f"{model}.{scheme}.gguf"
        if not out.exists():
            subprocess.run([sys.executable, "-m", "vitro", "quantize", str(MODELS / f"{model}.f16.gguf"), str(out), "--scheme", scheme],
                           check=True, capture_output=True)
        return out
    return file


@needs_device
@pytest.mark.parametrize("model, scheme", [
    ("stories-reglu-3m", "q8_0"), ("stories-reglu-3m", "q4_0"), ("stories-moe-6m", "w4g64z"),
    *(pytest.param(*more, marks=pytest.mark.all) for more in (
        ("stories-reglu-3m", "w4g64z"), ("stories-moe-6m", "q8_0"), ("stories-moe-6m", "q4_0")))])
def test_prefill_and_decode_have_the_tokens_of_a_core(native, quantised, model, scheme):
    file = quantised(model, scheme)
    core = native(*arguments("cpu0", file, **{"engine.activations": "a16"})).json
    gpu = native(*arguments("gpu", file)).json
    assert gpu["tokens"] == core["tokens"] and len(core["tokens"]) == 12
    assert gpu["counts"]["gpu_products"] >= 12 * 4 * 4
    assert gpu["counts"]["gpu_launches"] >= gpu["counts"]["gpu_products"] > gpu["counts"]["gpu_requests"]
    assert any(note.startswith("gpu: ") and "memory objects" in note for note in gpu["notes"])


@needs_device
def test_activations_in_float16_have_the_tokens_of_a_core(native):
    keys = {"engine.graph.activations": "f16"}
    core = native(*arguments("cpu0", **keys, **{"engine.activations": "a16"})).json
    gpu = native(*arguments("gpu", **keys)).json
    assert gpu["tokens"] == core["tokens"] and gpu["counts"]["gpu_products"] >= 12 * 4 * 4


@needs_device
@pytest.mark.parametrize("settings", [
    {"engine.products": "{decode: buffer, prefill: image}"}, {"workload.batch": 3, "engine.prefill_chunk": 3},
    {"engine.units": "[cpu0, gpu]"}, {"engine.units": "[cpu0, gpu]", "engine.policy": "gpu_matmuls"},
    {"engine.policy": "mmap"}, {"engine.policy": "neuron_cluster"}, {"engine.policy": "gpu_dense"}], ids=str)
def test_it_goes_with_other_parts(native, settings):
    same = {key: value for key, value in settings.items() if key.startswith("workload") or key == "engine.prefill_chunk"}
    parts = {"engine.policy": settings["engine.policy"]} if settings.get("engine.policy") == "neuron_cluster" else {}
    core = native(*arguments("cpu0", **{"engine.activations": "a16"} | same | parts)).json
    gpu = native(*arguments("gpu", **settings)).json
    assert (gpu["tokens"], gpu.get("sequences")) == (core["tokens"], core.get("sequences"))


def test_without_a_device_it_says_what_is_missing(native):
    answer = native(*arguments("gpu"), env={"OCL_ICD_VENDORS": "/nonexistent"})
    assert answer.code == 2 and not answer.out, answer.err
    assert "engine.units: gpu" in answer.err and "OpenCL" in answer.err, answer.err


@needs_device
def test_a_device_that_is_not_there_is_named_beside_those_that_are(native):
    answer = native(*arguments("gpu7"))
    assert answer.code == 2 and "engine.units: there is no gpu7 (expected gpu0 to gpu" in answer.err, answer.err


def test_a_name_that_is_no_number_is_refused(native):
    answer = native(*arguments("gpux"))
    assert answer.code == 2 and 'engine.units: there is no "gpux" (expected gpu, gpu0, gpu1, ...)' in answer.err, answer.err


# Stands in for the loader: from the hundred and first on, launches fail. All else is the loader's.
LOST = """
#include <dlfcn.h>
#define FORWARD(name) \\
  __attribute__((used)) static void *real_##name; \\
  __asm__(".globl " #name "\\n.type " #name ", @function\\n" #name ": jmp *real_" #name "(%%rip)");
#define FIND(name) real_##name = dlsym(loader, #name);
%(forwards)s
static int (*launch)(void *, void *, unsigned, const void *, const void *, const void *, unsigned, const void *, void *);
int clEnqueueNDRangeKernel(void *queue, void *kernel, unsigned n, const void *a, const void *b, const void *c, unsigned m, const void *d,
                           void *e) {
  static int launches;
  return ++launches > 100 ? -5 : launch(queue, kernel, n, a, b, c, m, d, e);
}
__attribute__((constructor)) static void find(void) {
  void *loader = dlopen("%(loader)s", RTLD_NOW);
  %(finds)s
  launch = dlsym(loader, "clEnqueueNDRangeKernel");
}
"""


@needs_device
@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("cc"), reason="needs a C compiler for x86-64")
def test_a_device_lost_in_mid_run_is_named_and_leaves_no_result(native, tmp_path):
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}).stdout
    loader = next(line.split()[-1] for line in listed.splitlines() if "libOpenCL.so.1 " in line)
    used = set(re.findall(r"F\((cl\w+)\)", (ROOT / "engine" / "host" / "opencl_api.hpp").read_text())) - {"clEnqueueNDRangeKernel"}
    words = {"forwards": "\n".join(f"FORWARD({name})" for name in sorted(used)), "loader": loader,
             "finds": " ".join(f"FIND({name})" for name in sorted(used))}
    (tmp_path / "lost.c").write_text(LOST % words)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libOpenCL.so.1", tmp_path / "lost.c", "-ldl"], check=True)
    out = tmp_path / "out"
    answer = native(*arguments("gpu"), "--out", out, env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert answer.code == 1 and not answer.out, (answer.code, answer.out, answer.err)
    assert "gpu: the device was lost: " in answer.err and "clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES (-5)" in answer.err, answer.err
    assert not (out / "result.json").exists()


def simulated(native, way, scheme_file, **settings):
    return native(*arguments("gpu", scheme_file, "sim", **{"engine.products": f"{{decode: {way}, prefill: {way}}}"} | settings)).json


def test_the_simulated_gpu_tells_its_kernels_apart_and_computes_the_same(native, quantised):
    file = quantised("stories-reglu-3m", "q4_0")
    core = native(*arguments("cpu0", file, "sim", **{"engine.activations": "a16"})).json
    runs = {way: simulated(native, way, file) for way in ("image", "buffer", "file", "convert")}
    assert all(run["tokens"] == core["tokens"] for run in runs.values())
    assert not any(call.startswith(tuple(runs)) for run in runs.values() for call in run["unpriced_calls"])
    # Decoding by single bytes, and with a copy of the weights, is slower than by 128 bits.
    speed = {way: run["metrics"]["decode_tokens_per_s"] for way, run in runs.items()}
    assert speed["file"] < speed["image"] and speed["convert"] < speed["image"], speed


def test_the_loads_of_a_simulated_kernel_count_where_they_are_what_it_waits_for(native, quantised):
    file = quantised("stories-reglu-3m", "q4_0")
    slow = {"device.gpu.products.buffer.fetch": "1e9"}
    fast, buffer = (simulated(native, way, file, **slow)["metrics"]["decode_tokens_per_s"] for way in ("image", "buffer"))
    assert buffer < fast


@pytest.mark.all
def test_zero_points_cost_a_simulated_gpu_arithmetic(native, quantised):
    dear = {"device.gpu.products.unpack.zero_point": "1e4"}
    for scheme, costs in (("w4g64z", True), ("w4g64", False)):
        file = quantised("stories-reglu-3m", scheme)
        usual, more = (simulated(native, "image", file, **settings)["metrics"]["decode_tokens_per_s"] for settings in ({}, dear))
        assert (more < usual) == costs, (scheme, usual, more)
