"""engine.placement.transport on the command line: the worker behind FastRPC, for which a library stands in that runs it in qemu-hexagon."""
import json
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
LIBRARY = ROOT / "build" / "release" / "tests" / "engine" / "host" / "libvitro_fastrpc_double.so"
REFERENCE = json.loads((ROOT / "configs/models/embedded/reference.json").read_text())["models"]["stories-reglu-3m.f16.gguf"]["greedy"][0]
TOKENS = 2  # the emulator takes most of the time
BY_FASTRPC = ("--set", "engine.placement.transport=fastrpc")

needs_library = pytest.mark.skipif(not LIBRARY.exists() or not shutil.which("qemu-hexagon"),
                                   reason="needs qemu-hexagon and the tests' library")


WORKER = ROOT / "engine" / "kernels" / "hexagon" / "hvx_worker"
FLAGS = ["--target=hexagon-unknown-linux-musl", "-mv73", "-mhvx", "-mhvx-length=128B", "-std=c++20", "-O0", "-fPIC", "-ffreestanding",
         "-fno-builtin", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-ffp-contract=off", "-Werror", f"-I{ROOT}",
         f"-I{ROOT / 'tests/engine/kernels/hexagon/phone'}"]
# What a phone's module finds in its process: QuRT, the DSP's part of FastRPC, a C library.
FOUND_ON_A_PHONE = {"qurt_thread_create", "qurt_thread_join", "qurt_thread_exit", "qurt_thread_get_id", "qurt_thread_get_priority",
                    "qurt_futex_wait", "qurt_futex_wake", "qurt_timer_sleep", "qurt_hvx_lock", "qurt_hvx_unlock", "HAP_mmap", "HAP_munmap",
                    "HAP_power_set", "memset", "memcpy", "__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes"}


def quickstart(native, *settings, env=None):
    return native("run", QUICKSTART, "--machine", "host", "--set", "engine.units=hexagon", "--set", f"workload.output_tokens={TOKENS}",
                  "--json", *settings, env=env)


@needs_library
def test_the_quickstart_behind_fastrpc_has_the_tokens_of_the_emulated_program(native):
    direct = quickstart(native, "--set", "engine.placement.transport=qemu", env={"VITRO_FASTRPC": str(LIBRARY)}).json
    named, found = (quickstart(native, *settings, env={"VITRO_FASTRPC": str(LIBRARY)}).json for settings in (BY_FASTRPC, ()))
    assert direct["tokens"] == named["tokens"] == found["tokens"] == REFERENCE["ids"][:TOKENS]
    for key in ("hexagon_operators", "hexagon_requests"):
        assert direct["counts"][key] == named["counts"][key] == found["counts"][key] > 0
    assert any("qemu-hexagon" in note for note in direct["notes"])
    assert all(any(f"FastRPC ({LIBRARY})" in note for note in answer["notes"]) for answer in (named, found))


def test_a_library_that_is_missing_is_named(native):
    answer = quickstart(native, *BY_FASTRPC, env={"VITRO_FASTRPC": "/nowhere/libcdsprpc.so"})
    assert answer.code == 2
    assert "engine.units: hexagon through FastRPC: /nowhere/libcdsprpc.so can not be loaded" in answer.err


def test_the_transport_is_a_hexagons(native):
    answer = native("run", QUICKSTART, "--machine", "host", *BY_FASTRPC)
    assert answer.code == 2 and "engine.placement.transport" in answer.err and "expected hexagon among the units" in answer.err
    answer = quickstart(native, "--set", "engine.placement.transport=usb")
    assert answer.code == 2 and "engine.placement.transport" in answer.err and "fastrpc" in answer.err


@pytest.mark.all
@pytest.mark.skipif(not all(map(shutil.which, ("clang++-19", "ld.lld-19", "llvm-readelf-19"))), reason="needs clang-19, lld-19 and llvm-19")
def test_the_phones_module_links_with_nothing_but_qurt_and_a_c_library(tmp_path):
    """By one file in place of two: position-independent code for a phone's version of the DSP, with the entry that FastRPC calls."""
    never_linked = ("system", "freestanding", *(path.stem for path in WORKER.glob("float_*.cpp")))
    sources = [path for path in sorted(WORKER.glob("*.cpp")) if path.stem not in never_linked]
    assert WORKER / "system_qurt.cpp" in sources and len(sources) > 15
    for path in sources:
        subprocess.run(["clang++-19", *FLAGS, "-c", path, "-o", tmp_path / f"{path.stem}.o"], check=True)
    module = tmp_path / "libvitro_hexagon_skel.so"
    objects = sorted(tmp_path.glob("*.o"))
    subprocess.run(["clang++-19", FLAGS[0], "-mv73", "-shared", "-nostdlib", "-fuse-ld=lld", *objects, "-o", module], check=True)
    symbols = subprocess.run(["llvm-readelf-19", "--dyn-syms", module], check=True, capture_output=True, text=True).stdout
    undefined = set(re.findall(r" UND (\w+)", symbols))
    assert "HAP_mmap" in undefined and undefined <= FOUND_ON_A_PHONE
    assert re.search(r"FUNC +GLOBAL +DEFAULT +\d+ vitro_hexagon_skel_handle_invoke$", symbols, re.MULTILINE)
