"""Cases of a torture run: one seed, one case; all of them are read, and together they use every part."""
import json

from vitro.torture import draw


def test_one_seed_is_one_case_and_another_seed_another():
    assert draw.case(5) == draw.case(5)
    assert draw.case(5) != draw.case(6)


def test_a_case_is_json_and_names_its_model_and_machine():
    for seed in range(50):
        case = json.loads(json.dumps(draw.case(seed)))
        assert case["machine"] == "virtual" and case["experiment"]["machine"] == "host"
        assert case["model"]["kind"] in ("dense", "mixture") and case["model"]["format"] in draw.SCHEMES
    simulated = draw.case(1, "sim", "phone.yaml")
    assert simulated["experiment"]["machine"] == "sim" and simulated["experiment"]["device"] == "phone.yaml"


def test_every_part_is_drawn():
    engines = [draw.case(seed)["experiment"]["engine"] for seed in range(300)]
    def drawn(*path):
        found = set()
        for engine in engines:
            for key in path:
                engine = engine.get(key, {}) if isinstance(engine, dict) else {}
            found.add(str(engine))
        return found - {"{}"}
    assert drawn("weights", "kind") == {"dram", "paged", "streamed", "bundles", "experts"}
    assert drawn("ffn", "clusters", "io_together") == {"1", "3", "8"}
    assert "router" in drawn("weights", "eviction") and {"always", "bypass"} <= drawn("weights", "admission")
    assert drawn("ffn", "experts", "place") == {"load", "hottest", "cores"}
    assert drawn("ffn", "kind") == {"dense", "clusters", "experts"}
    assert {"unit", "layers", "chunk_attention"} <= drawn("placement", "kind")
    assert drawn("kv", "dram_tokens") == {"0", "3", "8"}
    assert {"int8", "int8_tables", "int16_tables", "fp16"} <= drawn("products", "numerics")
    assert drawn("graph", "fuse") == {"none", "geometry"} and drawn("ffn", "experts", "shapes") == {"exact"}


def test_sections_see_what_was_drawn_before_them():
    engines = [draw.case(seed)["experiment"]["engine"] for seed in range(300)]
    experts = [engine["weights"] for engine in engines if engine["weights"].get("kind") == "experts" and "clusters" in engine["ffn"]]
    assert any("neurons_ahead" in weights["experts"] for weights in experts)
    assert any(engine["placement"].get("kv") == "staged" for engine in engines if engine["placement"].get("kind") in ("prompts", "matmuls"))


def test_loads_are_those_of_the_model():
    for seed in range(300):
        case = draw.case(seed)
        if case["experiment"]["engine"]["ffn"]["kind"] == "experts":
            dense = int(case["model"].get("other", False))  # the first layer of the other family has no experts
            assert len(case["experiment"]["engine"]["ffn"]["experts"]["loads"]) == case["model"]["layers"] - dense


def test_samples_their_judges_adapters_and_checksums_are_drawn():
    cases = [draw.case(seed) for seed in range(300)]
    scaled = [case["experiment"]["workload"]["scaling"] for case in cases if "scaling" in case["experiment"]["workload"]]
    assert {scaling["method"] for scaling in scaled} == {"best_of_n", "beam_search", "self_consistency"}
    judges = [scaling.get("scorer", {}).get("kind") for scaling in scaled]
    assert judges.count("model") == sum("reward" in case for case in cases) > 10
    assert sum("adapters" in case for case in cases) > 30
    assert {case["experiment"]["engine"]["kv"].get("checksums") for case in cases} == {None, True, False}
    assert any('"hexagon"' in json.dumps(case) for case in cases)
    assert not any('"hexagon"' in json.dumps(draw.case(seed, "host")) for seed in range(50))
