"""Published system results: each is asked with the conditions that the paper states, and judged by what docs/guide/reproduce.md says."""
import pytest
import vitro
import yaml
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.reproducing import paper as reproducing
from vitro.reproducing import paper_map as maps
from vitro.reproducing.formula import Missing, parse, runs_of
from vitro.trace import recordings

PAPERS = ROOT / "experiments" / "papers"
FIGURES = yaml.safe_load((PAPERS / "figures.yaml").read_text())
PI2 = maps.load("pi2", PAPERS / "pi2")


# ---- the paper's own map

def test_every_result_of_the_paper_has_a_row_per_number():
    expected = set()
    for entry in [*FIGURES["entries"], *FIGURES["reserved"]]:
        if entry["id"].startswith("pi2_") and entry["kind"] in ("system_result", "ablation"):
            value = entry.get("value")
            leaves = list(value) if isinstance(value, dict) else entry.get("leaves")
            expected |= {f"{entry['id']}.{leaf}" for leaf in leaves} if leaves else {entry["id"]}
    assert {question.id for question in PI2.questions if question.entry["kind"] in maps.KINDS} == expected
    assert {"pi2_lat_bamboo_off50.p99", "pi2_lat_mixtral_off50.p90", "pi2_abl_xpu_gain"} <= expected


def test_every_paper_of_the_figures_has_an_answer_to_each_result():
    assert set(maps.papers()) == set(FIGURES["meta"]["papers"])
    for paper in maps.papers():
        assert maps.load(paper).questions  # refuses a map that leaves one out


def test_every_outcome_that_is_to_be_checked_has_an_answer():
    """Of a map of its paper, or of the hardware's, which `vitro characterize` prints."""
    hardware = yaml.safe_load((PAPERS / "map.yaml").read_text())["entries"]
    to_check = {entry["id"] for entry in FIGURES["entries"] if entry.get("use") == "check"}
    answered = {question.entry["id"] for paper in maps.papers() for question in maps.load(paper).questions
                if question.formula or question.answer["not_modelled"]}
    assert len(to_check) > 20 and not to_check - answered - set(hardware)


def test_a_result_that_no_run_answers_says_why_and_is_no_failure(native):
    answer = native("reproduce", "--paper", "npumoe", "--only", "npumoe_sync_share_worst", "--json")
    assert answer.code == 0, answer.err
    (row,) = answer.json["rows"]
    assert row["status"] == "not modelled" and row["why"] and row["simulated"] is None


def test_reserved_and_contradictory_results_are_never_scored():
    by_id = {question.id: question for question in PI2.questions}
    assert by_id["pi2_energy_pi2"].status == "reserved" and by_id["pi2_energy_pi2"].expected is None
    assert by_id["pi2_abl_cache_factor"].status == "contradictory" and by_id["pi2_abl_cache"].status is None


def test_no_input_is_among_the_rows():
    others = [question.entry for question in PI2.questions if question.entry["kind"] not in maps.KINDS]
    assert others and all(entry["kind"] == "workload_stat" and entry["use"] in ("check", "calibrate") for entry in others)


def test_every_step_of_the_ablation_has_its_sign_checked():
    assert {f"ablation_{step}_gains" for step in ("bundle", "cache", "pipeline", "xpu")} <= {check.id for check in PI2.checks}


@pytest.mark.all
def test_every_run_resolves_or_says_which_part_of_an_engine_is_missing(native):
    for question in (*PI2.questions, *PI2.checks):
        for words in reproducing.words_of(question):
            try:
                resolved = vitro.resolve(PI2.experiment, overrides=PI2.overrides(words))
            except ConfigError as missing:
                assert ": engine." in str(missing), words
                continue
            if "mixtral" in words and "ace2" in words and "off" in words:
                assert resolved["memory"] == {"ffn_in_dram": "25%", "lock": False}
            assert resolved["model"]["shape"]["layers"] >= 28


def test_all_policies_get_the_same_cores():
    named = {part["engine"] for part in PI2.parts.values() if "engine" in part}
    engines = [yaml.safe_load((PI2.path.parent / path).read_text()) for path in sorted(named)]
    assert len(engines) > 5
    units = {tuple(engine["units"]) for engine in engines if engine.get("units", ["npu"])[0].startswith("cpu")}
    assert units == {tuple(f"cpu{i}" for i in range(6))}


# ---- models

PROFILES = {path: yaml.safe_load(path.read_text()).get("profile") for path in sorted((ROOT / "configs" / "models").glob("*.yaml"))}
MODELS = [path for path, profile in PROFILES.items() if profile and "fraction" in profile]
ROUTERS = [path for path, profile in PROFILES.items() if profile and "fraction" not in profile]  # only experts are drawn


@pytest.mark.parametrize("path", ROUTERS, ids=lambda path: path.stem)
def test_every_number_of_a_router_profile_says_where_it_comes_from(path):
    tree = yaml.safe_load(path.read_text())
    assert set(tree["provenance"]) == set(tree["profile"]) | {"shape", "format"}
    known = {entry["id"] for entry in FIGURES["entries"]}
    for name, origin in tree["provenance"].items():
        cited = {word.strip("(),;") for word in origin["source"].split() if word.strip("(),;").startswith("npumoe_")}
        assert cited <= known and origin["kind"] in ("spec", "assumed"), name
        assert origin["kind"] == "assumed" or name in ("shape", "format"), name  # no published statistic sets a router's profile


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_number_of_an_activation_profile_says_where_it_comes_from(path):
    tree = yaml.safe_load(path.read_text())
    numbers = {f"{key}.{inner}" for key, value in tree["profile"].items() if isinstance(value, dict) for inner in value}
    numbers |= {key for key, value in tree["profile"].items() if not isinstance(value, dict)}
    assert set(tree["provenance"]) == numbers | {"predictor_rank"}
    usable = {entry["id"] for entry in FIGURES["entries"]
              if entry.get("use") in ("input", "calibrate") and entry.get("verdict") != "contradictory"}
    for name, origin in tree["provenance"].items():
        cited = {word.strip("(),;") for word in origin["source"].split() if word.strip("(),;").startswith("pi2_")}
        assert cited <= usable, name
        assert origin["kind"] == "assumed" or cited or "section" in origin["source"] or "vitro profile" in origin["source"], name
        if name == "fraction" and origin["kind"] == "assumed":
            assert origin["band"] == "20%"


@pytest.mark.all
def test_the_profiles_are_what_the_calibration_derives():
    import importlib.util
    spec = importlib.util.spec_from_file_location("calibrate", PAPERS / "pi2" / "calibrate.py")
    calibrate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(calibrate)
    trees = {path.stem: yaml.safe_load(path.read_text()) for path in MODELS}
    found = calibrate.fractions({name: tree["shape"] for name, tree in trees.items()})
    for name, share in found.items():
        assert trees[name]["profile"]["fraction"] == f"{100 * share:.3g}%"
    assert {tree["profile"]["skew"] for tree in trees.values()} == {round(calibrate.skew(found["bamboo-7b"]), 2)}
    precisions = {name: tree["profile"]["predictor"]["precision"] for name, tree in trees.items()}
    assert set(precisions.values()) == {calibrate.precision()}
    mixtral = trees["turbosparse-mixtral-47b"]["shape"]
    assert mixtral["predictor_rank"] == calibrate.predictor_rank(mixtral)
    profile = trees["turbosparse-mixtral-47b"]["profile"]
    assert profile["expert_persistence"] == f"{calibrate.expert_persistence(mixtral, profile['stretch']):.3g}%"
    assert calibrate.shared_experts(0, 8) == pytest.approx(1 - 15 / 28) and calibrate.shared_experts(1, 8) == pytest.approx(1)


def test_drawn_experts_come_back_as_often_as_published(native):
    """Whole layers of drawn choices, against the law that the calibration inverts and against the figure that it was given."""
    path = next(path for path in MODELS if path.stem == "turbosparse-mixtral-47b")
    experiment = {"experiment": "experts", "machine": "sim", "device": str(ROOT / "configs" / "devices" / "oneplus12.yaml"),
                  "model": str(path), "engine": {"function": "draw"}, "workload": {"prompt_tokens": 4, "output_tokens": 4}}
    found = [recordings.workload_statistics(experiment, tokens=1500, layer=layer)["experts"]["shared"] for layer in (0, 9, 18, 27)]
    assert sum(found) / len(found) == pytest.approx(0.564, abs=0.02)


def test_no_speed_sets_a_parameter():
    source = (PAPERS / "pi2" / "calibrate.py").read_text()
    assert "cache_hit_rate" in source
    assert not any(metric in source for metric in ("tokens_per_s", "latency", "io_share", "energy", "bandwidth"))


# ---- formulas

def test_formulas_compute_with_metrics():
    metrics = {("a", "speed"): 6.0, ("b", "speed"): 2.0, ("b", "latency.p99"): 40.0}
    def of(text):
        return parse(text, "here")(lambda *names: metrics[names])
    assert of("a.speed / b.speed - 1") == 2
    assert of("max(a.speed, b.latency.p99)") == 40 and of("mean(a.speed, b.speed)") == 4 and of("min(a.speed, b.speed, 1)") == 1
    assert of("a.speed > b.speed > 1") is True and of("a.speed > b.speed > 3") is False
    assert runs_of("a.speed / b.latency.p99 + 100") == {"a", "b"}


@pytest.mark.parametrize("text", ["__import__('os')", "a", "a.b()", "a.b ** 2", "a.b if 1 else 2", "'x'", "a.b +", "max()", "[1]", "True"])
def test_a_formula_is_arithmetic_and_nothing_else(text):
    with pytest.raises(ConfigError, match="here"):
        parse(text, "here")


def test_dividing_by_nothing_is_no_number():
    with pytest.raises(Missing, match="b.x is 0"):
        parse("a.x / b.x", "here")(lambda run, name: {"a": 1, "b": 0}[run])


# ---- folding

def test_speeds_are_straight_up_to_where_they_bend():
    line = [(x, 1.0 + x) for x in (7, 10, 13, 16, 19)]
    assert reproducing.straight_to(line) == 19
    assert reproducing.straight_to(line[:4] + [(19, 60.0)]) == 16
    assert reproducing.straight_to([(7, 1.0), (10, 9.0), (13, 1.0)]) == 0, "two points are on a line whatever they are"


def test_only_what_has_a_band_is_moved():
    model = {"profile": {"fraction": "10%", "skew": 2}, "provenance": {"skew": {"kind": "derived"}, "fraction": {"band": "20%"}}}
    assert reproducing.band(model, "low") == {"model.profile.fraction": "8%"}
    assert reproducing.band(model, "high") == {"model.profile.fraction": "12%"}
    assert reproducing.band({"gguf": "x"}, "low") == {}
