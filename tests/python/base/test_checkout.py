"""Names of what comes with vitro: the same in Python and in experiment files."""
import pytest
import vitro
from conftest import ROOT
from vitro.base import checkout

EXPERIMENT = """
experiment: named
machine: sim
device: vitro:devices/oneplus12
model: {gguf: vitro:models/embedded/stories-reglu-3m.f16.gguf}
engine: {include: vitro:engines/mnn, policy: dense, units: [cpu0]}
workload: {prompt: "Once", output_tokens: 2}
"""


def test_a_name_is_a_file_and_a_path_stays_one():
    assert checkout.shipped_path("vitro:devices/oneplus12") == str(ROOT / "configs/devices/oneplus12.yaml")
    assert checkout.shipped_path("vitro:configs/devices/oneplus12.yaml") == str(ROOT / "configs/devices/oneplus12.yaml")
    assert checkout.shipped_path("vitro:experiments/quickstart") == str(ROOT / "experiments/quickstart.yaml")
    assert checkout.shipped_path("experiments/quickstart.yaml") == "experiments/quickstart.yaml"


def test_what_comes_with_vitro_is_listed_by_a_name_that_every_folder_understands(tmp_path, monkeypatch):
    device = ROOT / "configs/devices/oneplus12.yaml"
    monkeypatch.chdir(ROOT)
    assert checkout.called_here(device) == "configs/devices/oneplus12.yaml"
    monkeypatch.chdir(tmp_path)
    assert checkout.called_here(device) == "vitro:devices/oneplus12"
    model = ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf"
    assert checkout.called_here(model) == "vitro:models/embedded/stories-reglu-3m.f16.gguf"
    assert checkout.called_here(tmp_path / "own.yaml") == "own.yaml"
    for path in (device, model):
        assert checkout.shipped_path(checkout.called_here(path)) == str(path)


@pytest.mark.parametrize("text, said", [("vitro:devices/none", "vitro:devices/none: does not come with vitro .looked for /"),
                                        ("vitro:../README.md", "is no name of a file"), ("vitro:/etc/passwd", "is no name of a file"),
                                        ("vitro:", "is no name of a file"), ("vitro:devices", "does not come with vitro")])
def test_other_names_are_refused(text, said):
    with pytest.raises(vitro.ConfigError, match=said):
        checkout.shipped_path(text)


def test_an_installed_package_has_them_inside(tmp_path, monkeypatch):
    package = tmp_path / "site/vitro"
    (package / "data/configs").mkdir(parents=True)
    monkeypatch.setattr(checkout, "__file__", str(package / "base/checkout.py"))
    assert checkout.root() == package / "data"


def test_an_experiment_in_any_folder_names_them(native):
    path = native.write(EXPERIMENT)
    answer = native("run", path, "--json")
    assert answer.code == 0, answer.err
    resolved = answer.json["experiment_resolved"]
    assert resolved["model"]["gguf"] == str(ROOT / "configs/models/embedded/stories-reglu-3m.f16.gguf")
    assert resolved["device"]["name"] == "oneplus12" and resolved["schema"] == "vitro.experiment/1"
    short = native("run", "vitro:experiments/quickstart", "--set", "workload.output_tokens=2", "--set", "device=vitro:devices/xiaomi14",
                   "--json")
    assert short.code == 0 and short.json["experiment_resolved"]["device"]["name"] == "xiaomi14"


@pytest.mark.parametrize("change, said", [
    (("vitro:devices/oneplus12", "vitro:devices/none"), 'exp.yaml:4: device: "vitro:devices/none" does not come with vitro'),
    (("vitro:engines/mnn", "vitro:../mnn"), 'exp.yaml:6: engine.include: "vitro:../mnn" is no name of a file'),
    (("experiment: named", "experiment: named\nschema: vitro.experiment/9"),
     "exp.yaml:3: schema: vitro.experiment/9 is newer than this vitro")])
def test_wrong_names_and_versions_have_one_message_with_their_place(native, change, said):
    answer = native("run", native.write(EXPERIMENT.replace(*change)), "--json")
    assert answer.code == 2 and said in answer.err and answer.out == ""


@pytest.mark.parametrize("arguments", [
    ("plan", "vitro:models/qwen2-1.5b", "--device", "vitro:devices/oneplus12", "--profile", "profile.yaml", "-o", "out", "--json",
     "--set", "memory.ffn_in_dram=50%"),
    ("quantize", "vitro:models/embedded/stories-reglu-3m.f16.gguf", "out", "--scheme", "q8_0", "--json"),
    ("pack", "vitro:models/embedded/stories-reglu-3m.f16.gguf", "out", "--json"),
    ("characterize", "vitro:devices/oneplus12", "--only", "dram", "--json")])
def test_commands_take_such_names_for_files(native, arguments):
    native.write("profile: {fraction: 20%, skew: 0.5}\n", "profile.yaml")
    answer = native(*arguments)
    assert answer.code == 0, answer.err
    assert answer.json
