"""`vitro tiles`: Table 2 of MNN-LLM under the countings of its equations, and what a wrong argument is told."""
import pytest
from conftest import ROOT
from vitro.base.trees import load_yaml
from vitro.device import tiles

FIGURES = load_yaml(ROOT / "experiments" / "papers" / "figures.yaml")
TABLE_2 = {"mnn_tile_arm_i8sdot": "sdot", "mnn_tile_arm_i8mm": "smmla",
           "mnn_tile_x86_avx2": "vpmaddubsw", "mnn_tile_x86_avx512": "vpdpbusd"}


def published(figure):
    def find(tree):
        if isinstance(tree, dict):
            if tree.get("id") == figure:
                return tree["value"]
            tree = list(tree.values())
        if isinstance(tree, list):
            return next((found for found in map(find, tree) if found), None)
        return None
    value = find(FIGURES)
    return [value["e_p"], value["h_p"], value["l_p"]]


def solved(instruction, counting):
    """Of products with one register of sums for each: what equation 3 has."""
    row, = (row for row in tiles.solve(isa=instruction) if row["counting"] == counting and row["sums"] == 1)
    return row["tile"]


def test_128_bit_words_make_three_rows_of_table_2_the_optimum():
    equal = {figure: solved(instruction, "words") == published(figure) for figure, instruction in TABLE_2.items()}
    assert equal == {"mnn_tile_arm_i8sdot": True, "mnn_tile_arm_i8mm": True, "mnn_tile_x86_avx2": True, "mnn_tile_x86_avx512": False}


def test_no_counting_explains_the_row_of_avx512_and_loads_come_nearest():
    row = published("mnn_tile_x86_avx512")
    choices = {counting: solved("vpdpbusd", counting) for counting in ("printed", "words", "registers", "loads")}
    assert row not in choices.values()
    assert choices["loads"] == [row[0] + 1, *row[1:]]


def test_as_printed_no_row_of_table_2_fits():
    for figure, instruction in TABLE_2.items():
        e, h, _ = published(figure)
        assert e + h + e * h > tiles.solve(isa=instruction)[0]["registers"]


def test_tiles_access_less_and_fill_no_more_registers_than_there_are():
    for row in tiles.solve("128,512,512"):
        if row["tile"]:
            assert row["after"] < row["before"] and row["filled"] <= row["registers"]


def test_a_device_chooses_the_instruction_of_its_cores(native):
    answer = native("tiles", "--device", ROOT / "configs" / "devices" / "xiaomi14.yaml", "--json")
    assert {row["instruction"] for row in answer.json["rows"]} == {"smmla"}
    text = native("tiles", "--device", ROOT / "configs" / "devices" / "xiaomi14.yaml").out
    assert "10 x 8 x 8" in text and "29 of 32" in text


@pytest.mark.parametrize("args, part", [
    (["--shape", "64,4096"], "--shape: \"64,4096\" (expected e,h,l"),
    (["--shape", "0,8,8"], "three numbers above 0"),
    (["--isa", "mmx"], "expected one of: avx2, avx512"),
    (["--device", ROOT / "configs" / "devices" / "xiaomi14.yaml", "--isa", "avx2"], "--isa leaves out"),
    (["--device", "nowhere.yaml"], "nowhere.yaml"),
])
def test_a_wrong_argument_is_said(native, args, part):
    answer = native("tiles", *args)
    assert answer.code == 2
    assert part in answer.err
