"""Device models written in Python, and the device file as an object."""
import json
import subprocess
import sys

import nbclient
import nbformat
import pytest
import vitro
from conftest import ROOT

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
ONEPLUS12 = ROOT / "configs" / "devices" / "oneplus12.yaml"
MODEL = ROOT / "configs" / "models" / "embedded" / "stories-reglu-3m.f16.gguf"
SHORT = {"workload.output_tokens": 4, "engine.units": ["cpu0"]}
PAGING = {**SHORT, "engine.policy": "mmap", "memory.budget": "6 MiB"}
MEMORY = {"capacity": "12 GB", "available": "9 GB"}
FLASH = {"model": "SteadyFlash", "link_bandwidth": "2 GB/s", "latency": "50 us"}


class FixedDram(vitro.DramModel):
    """every request takes its time, whatever else goes on"""

    name = "fixed_dram"
    parameters = {"per_request": vitro.Param("time", "1 us", "any")}

    def serve(self, now_ps, request):
        return now_ps + max(request.pace_ps, self.params["per_request"])


class SteadyFlash(vitro.StorageModel):
    parameters = {"latency": vitro.Param("time")}

    def setup(self):
        self.free_at = 0

    def serve(self, now_ps, request):
        self.free_at = max(now_ps + self.params["latency"], self.free_at) + round(request.length / self.params["link_bandwidth"] * 1e12)
        return self.free_at


def phone(block, **values):
    return vitro.Device(ONEPLUS12).override({block: {"model": "fixed_dram", **MEMORY, **values} if block == "dram" else values})


def decode_s(device, overrides=SHORT, **more):
    result = vitro.run(QUICKSTART, machine="sim", device=device, overrides=overrides, **more)
    return 1 / result.metric("decode_tokens_per_s")


def test_its_law_decides_the_speed(native):
    """Far slower than the cores' own pace, tokens take a time proportional to the time of a request."""
    slow, slower = (decode_s(phone("dram", per_request=f"{us} us"), models=[FixedDram]) for us in (1000, 2000))
    assert slower / slow == pytest.approx(2, rel=0.02)


def test_bytes_moved_do_not_depend_on_who_moves_them(native):
    def moved(device, **more):
        result = vitro.run(QUICKSTART, machine="sim", device=device, overrides=SHORT, **more)
        return result.metric("dram_bandwidth_gb_per_s") / result.metric("decode_tokens_per_s")  # GB per token
    for per_request in ("0 ns", "1 us"):
        assert moved(phone("dram", per_request=per_request), models=[FixedDram]) == pytest.approx(moved(ONEPLUS12), rel=0.01)


def test_a_flash_in_python_decides_the_speed_of_paging(native):
    """What 450 us more of latency cost is a whole number of waits for flash, where nothing is read ahead."""
    paging = PAGING | {"engine.read_ahead": "8 KiB"}
    fast, slow = (decode_s(phone("ufs", **FLASH | {"latency": f"{us} us"}), paging, models=[SteadyFlash]) for us in (50, 500))
    waits = (slow - fast) / 450e-6
    assert waits >= 1 and waits == pytest.approx(round(waits), abs=1e-3)


def test_runs_are_equal_and_assumed_parameters_are_told(native):
    def run():
        return vitro.run(QUICKSTART, machine="sim", device=phone("dram"), overrides=SHORT, models=[FixedDram])
    first, second = run(), run()
    assert {key for key in first if first[key] != second[key]} <= {"wall_s"}
    assert "dram.per_request" in first["assumed_parameters"]
    assert "dram.capacity" not in first["assumed_parameters"]  # nobody asked for it


def test_chance_is_the_same_in_every_run(native):
    class Moody(vitro.DramModel):
        def setup(self):
            import random
            self.draw = random.random
            self.moods = {f"mood {i}" for i in range(20)}  # the order of a set of texts depends on the hash seed

        def serve(self, now_ps, request):
            return now_ps + 1000 + int(1000 * self.draw()) + len(next(iter(self.moods)))
    hashes = {vitro.run(QUICKSTART, machine="sim", device=phone("dram", model="Moody"), overrides=SHORT, models=[Moody])["event_hash"]
              for _ in range(2)}
    assert len(hashes) == 1


def test_a_sweep_over_a_parameter_of_a_model(native):
    tree = {"experiment": "sweep", "machine": "sim", "model": {"gguf": str(MODEL)}, "workload": {"prompt": "Once", "output_tokens": 3},
            "engine": {"policy": "dense", "units": ["cpu0"]}, "sweep": {"device.dram.per_request": ["500 us", "1 ms", "2 ms"]}}
    frame = vitro.sweep(tree, device=phone("dram"), models=[FixedDram])
    assert list(frame["decode_tokens_per_s"]) == sorted(frame["decode_tokens_per_s"], reverse=True)
    assert (frame["status"] != "failed").all()


def test_a_sweep_runs_again_what_another_content_of_a_model_decides(native):
    tree = {"experiment": "sweep", "machine": "sim", "model": {"gguf": str(MODEL)}, "workload": {"prompt": "Once", "output_tokens": 3},
            "engine": {"policy": "dense", "units": ["cpu0"]}, "sweep": {"device.dram.per_request": ["500 us", "1 ms"]}}

    def model(late_ps):
        class Kept(FixedDram):
            def serve(self, now_ps, request):
                return super().serve(now_ps, request) + late_ps
        return Kept

    class Beside(vitro.DramModel):
        def serve(self, now_ps, request):
            return now_ps + 1

    def swept(*models):
        frame = vitro.sweep(tree, out=native.folder / "out", resume=True, device=phone("dram", model="Kept"), models=models)
        return list(frame["identity"]), list(frame["decode_tokens_per_s"]), list(frame["wall_s"])
    first = swept(model(10**8))
    assert swept(model(10**8)) == first, "from the store, times of the wall included"
    assert swept(model(10**8), Beside) == first, "a model that the device does not name is nothing to it"
    other = swept(model(10**9))
    assert not set(other[0]) & set(first[0]) and all(slower < faster for slower, faster in zip(other[1], first[1]))


def test_an_exception_comes_back_with_its_traceback(native):
    class Broken(vitro.DramModel):
        def serve(self, now_ps, request):
            return self.no_such_thing
    with pytest.raises(vitro.RunError) as caught:
        vitro.run(QUICKSTART, machine="sim", device=phone("dram", model="Broken"), models=[Broken])
    text = str(caught.value)
    assert "the device model Broken failed" in text and "AttributeError" in text
    assert "test_python_models.py" in text and "return self.no_such_thing" in text


def test_a_complaint_about_parameters_is_the_users(native):
    class Picky(vitro.DramModel):
        def setup(self):
            raise vitro.ConfigError("dram: this model wants more")

        def serve(self, now_ps, request):
            return now_ps
    with pytest.raises(vitro.ConfigError, match="^dram: this model wants more$"):
        vitro.run(QUICKSTART, machine="sim", device=phone("dram", model="Picky"), models=[Picky])


@pytest.mark.parametrize("answer", ["now_ps + 0.5", "now_ps - 1", "None"])
def test_an_impossible_time_is_refused(native, answer):
    class Odd(vitro.DramModel):
        def serve(self, now_ps, request):
            return eval(answer)
    with pytest.raises(vitro.RunError, match="serve\\(\\) returned .* \\(expected a whole number of picoseconds, not before that\\)"):
        vitro.run(QUICKSTART, machine="sim", device=phone("dram", model="Odd"), models=[Odd])


def test_what_is_no_model_is_refused(native):
    class Mute(vitro.DramModel):
        pass

    class Loose(FixedDram):
        parameters = {"x": "1 us"}

    class Strange(FixedDram):
        parameters = {"x": vitro.Param("speed")}

    class Wrong(FixedDram):
        parameters = {"x": vitro.Param("time", "1 GB")}

    class Taken(FixedDram):
        name = "lpddr"
    cases = {Mute: "Mute has no serve", Loose: "expected a vitro.Param", Strange: '"speed" \\(expected number', Wrong: 'default "1 GB"',
             Taken: '"lpddr.flow" is already registered', int: "is not a device model"}
    for model, message in cases.items():
        with pytest.raises(vitro.ConfigError, match=message):
            vitro.run(QUICKSTART, machine="sim", models=[model])


def test_without_its_class_a_model_is_unknown(native):
    with pytest.raises(vitro.ConfigError, match='dram.model: there is no model "fixed_dram.flow" \\(expected one of: lpddr'):
        vitro.run(QUICKSTART, machine="sim", device=phone("dram"))


def test_a_class_of_a_script_reaches_the_run(native):
    """By value: the process of the run knows nothing of the script."""
    script = native.folder / "script.py"
    script.write_text("import vitro\nSLOWNESS = 1_000_000\n\n\nclass Local(vitro.DramModel):\n    def serve(self, now_ps, request):\n"
                      "        return now_ps + SLOWNESS\n\n\n"
                      f"device = vitro.Device({str(ONEPLUS12)!r}).override({{'dram': {json.dumps(dict(MEMORY, model='Local'))}}})\n"
                      f"print(vitro.run({str(QUICKSTART)!r}, machine='sim', device=device, models=[Local]).tokens[:2])\n")
    answer = subprocess.run([sys.executable, script], env=native.env, cwd=native.folder, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0 and answer.stdout.startswith("["), answer.stderr


def test_a_class_of_a_notebook_reaches_the_run(native, monkeypatch):
    """And a traceback shows the line of its cell, which is in no file."""
    monkeypatch.setenv("PYTHONPATH", native.env["PYTHONPATH"])
    block = dict(MEMORY, model="Cell")
    cells = ["import vitro\nDELAY = 1000\n"
             "class Cell(vitro.DramModel):\n    def serve(self, now_ps, request):\n        return now_ps + DELAY",
             f"phone = vitro.Device({str(ONEPLUS12)!r}).override({{'dram': {block!r}}})\n"
             f"def run():\n    return vitro.run({str(QUICKSTART)!r}, machine='sim', device=phone, models=[Cell])\n"
             "assert run().tokens",
             "del DELAY\ntry:\n    run()\nexcept vitro.RunError as error:\n    text = str(error)\n"
             "assert 'NameError' in text and 'return now_ps + DELAY' in text, text"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(native.folder)}}).execute()


def test_parameters_of_a_device_carry_their_provenance(native):
    table = vitro.Device(ONEPLUS12).parameters().set_index("parameter")
    clock = table.loc["cpu.big.clock"]
    assert (clock["value"], clock["unit"], clock["kind"]) == (3.3e9, "Hz", "spec") and "PowerInfer-2 Table 1" in clock["source"]
    assert table.loc["dram.part", "kind"] == "choice"
    with_model = phone("dram").parameters(models=[FixedDram]).set_index("parameter")
    assert tuple(with_model.loc["dram.per_request", ["value", "kind", "source"]]) == (1e-6, "default", "any")


def test_override_gives_another_device(native):
    device = vitro.Device(ONEPLUS12)
    other = device.override({"cpu.mid.clock": "2.5 GHz", "dram.fidelity": "detailed"}, kind="measured", source="my phone")
    assert other.tree["cpu"]["clusters"][1]["clock"] == {"value": "2.5 GHz", "kind": "measured", "source": "my phone"}
    assert other.tree["dram"]["fidelity"] == "detailed"
    assert device.tree["cpu"]["clusters"][1]["clock"]["value"] == "3.0 GHz"
    with pytest.raises(vitro.ConfigError, match='there is no block "cpu.huge" in oneplus12'):
        device.override({"cpu.huge.clock": "9 GHz"})


def test_a_saved_device_is_the_same_device(native, tmp_path):
    device = vitro.Device(ONEPLUS12)
    device.save(tmp_path / "copy.yaml")
    copy = vitro.Device(tmp_path / "copy.yaml")
    assert copy.tree == device.tree
    runs = [vitro.run(QUICKSTART, machine="sim", device=d, overrides=SHORT) for d in (ONEPLUS12, device, tmp_path / "copy.yaml")]
    assert len({run["event_hash"] for run in runs}) == 1


def test_a_probe_of_a_device(native):
    args = {"units": ["big"], "variant": "float", "format": "f16", "m": 1, "n": 4096, "k": 4096}
    assert vitro.Device(ONEPLUS12).probe("memory_bandwidth", **args)["bytes_per_second"] > 1e9
