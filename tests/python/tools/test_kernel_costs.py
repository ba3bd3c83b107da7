"""tools/cpu_costs/generate.py: the committed prices are those of the kernels in this tree."""
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT

FOLDER = ROOT / "configs" / "kernels"
sys.path.insert(0, str(ROOT / "tools" / "cpu_costs"))
import codebooks  # noqa: E402
import generate  # noqa: E402
import halves  # noqa: E402
import loops  # noqa: E402

RATES = ("macs_per_cycle", *generate.BATCHES.values())
HALVES = ("f16.halves", "f16.halves_attention")  # of the set whose cores multiply float16 into float32, beside half_sums.f16


def tools():
    """What the committed files were made with, as they say it; None without both tools."""
    if not shutil.which(generate.MCA) or not shutil.which(generate.COMPILER):
        return None
    version = subprocess.run([generate.MCA, "--version"], capture_output=True, text=True).stdout.split("LLVM version ")[1].split()[0]
    compiler = subprocess.run([generate.COMPILER, "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    return f"llvm-mca {version}", f"{generate.COMPILER} {compiler}"


@pytest.fixture
def same_tools():
    there = tools()
    if there is None:
        pytest.skip(f"needs {generate.MCA} and {generate.COMPILER}")
    text = (FOLDER / "cpu-a720.yaml").read_text()
    if not all(f"{tool} " in text for tool in there):
        pytest.skip(f"the committed prices were made with other versions than {' and '.join(there)}")


def code_names():
    formats = [(f"w{bits}g{group}{ending}", bits in generate.PLANES and ending != "zr")
               for bits, endings in generate.ENDINGS.items() for group in generate.GROUPS for ending in endings]
    return [name + kind for name, looked_up in formats for kind in ("", *([".lut"] if looked_up else []))]


def table_names():
    """Of products by tables of int8, which have no other kind."""
    return [name.removesuffix(".lut") for name in code_names() if name.endswith(".lut")]


def lines_of(text, kernel_set):
    """What a document says of one set; the notes of its loops are comments."""
    return [line for line in text.splitlines() if line.startswith((f"  {kernel_set}:", f"#   {kernel_set} "))]


@pytest.mark.all
@pytest.mark.parametrize("core", ["a720", "oryon"])
def test_the_committed_prices_are_those_of_the_kernels_as_they_are(same_tools, core):
    committed = (FOLDER / f"cpu-{core}.yaml").read_text()
    again = generate.document(core, ["neon-i8mm"])
    assert lines_of(again, "neon-i8mm") == lines_of(committed, "neon-i8mm")
    assert len(lines_of(again, "neon-i8mm")) == (
        len(RATES) + 1 + sum(len(generate.passes("neon-i8mm", kernel)) for kernel in generate.LOOPS) + 2 * len(generate.K_LOOPS)
        + len(generate.SUMS) + len(generate.DEQUANTISERS) + len(generate.UNPACKING) + 2 * len(halves.LOOPS) + 2 + 3
        + 2  # of outliers
        + len(generate.MORE) + 4 + 2 * len(codebooks.RUNS)
        + sum(len(generate.code_loops(bits)) for bits in generate.ENDINGS))


@pytest.mark.parametrize("core", generate.CORES)
def test_every_core_has_prices_of_every_set_with_their_source(core):
    tree = yaml.safe_load((FOLDER / f"cpu-{core}.yaml").read_text())
    assert set(tree) == {*RATES, *generate.MORE.values(), "cycles_per_conversion"}
    for name in generate.MORE.values():
        for kernel_set in generate.SETS:
            assert set(tree[name][kernel_set]) == {"int8"} and set(tree[name][kernel_set]["int8"]) == set(codebooks.RUNS)
    for kernel_set in generate.SETS:
        conversions = tree["cycles_per_conversion"][kernel_set]
        within = ["f16", "f16.accumulate", "f16.attention", "q4_0.accumulate", *(HALVES if kernel_set == halves.SET else [])]
        assert {conversions["float"].pop(name) for name in within} == {0}
        assert conversions.pop("half_sums", None) == ({"f16": 0} if kernel_set == halves.SET else None)
        assert set(conversions["float"]) == {*generate.DEQUANTISERS, *codebooks.RUNS, "w4_outliers",
                                             *(f"{name}.attention" for name in generate.KV_FORMATS)}
        assert all(cycles > 0.1 for variant in conversions.values() for cycles in variant.values())
    for name in RATES:
        assert tree[name]["kind"] == generate.CORES[core][1] and generate.CORES[core][0] in tree[name]["source"]
        large = name in RATES[2:]  # passes of the int8 loops alone, which take instructions for dot products
        assert set(tree[name]) - {"kind", "source"} == set(generate.SETS)
        for kernel_set in set(tree[name]) & set(generate.SETS):
            rates = tree[name][kernel_set]
            codes = [*code_names(), "w4_outliers"] if kernel_set == generate.CODE_SET else []
            sums = {f"{format}.accumulate" for format in ("f32", "f16", "q4_0")} if name == "macs_per_cycle" else set()
            k_quants = set() if large else {"q4_k", "q5_k", "q6_k", "iq4_xs"}
            tiles = set() if large and kernel_set == "neon" else {"q4_0", "q8_0"}
            assert set(rates["int8"]) == {*tiles, *k_quants, *codebooks.RUNS, *codes, *(sums & {"q4_0.accumulate"})}
            assert set(rates.get("int8_tables", {})) == ({*table_names(), "q4_0"} if codes and not large else set())
            attended = {f"{name}.attention" for name in ("f32", "f16", *generate.KV_FORMATS)}
            floats = {"f32", "f16", *attended, *sums, *generate.DEQUANTISED, *(HALVES if kernel_set == halves.SET else [])}
            assert set(rates.get("float", {})) == (set() if large else floats)
            assert set(rates.get("half_sums", {})) == ({"f16"} if kernel_set == halves.SET and not large else set())
            assert all(0 < rate < 256 for variant in rates.values() for rate in variant.values())


def test_dot_products_of_bytes_pay_and_matrix_products_pay_for_batches():
    tree = yaml.safe_load((FOLDER / "cpu-a720.yaml").read_text())
    one, batch = tree["macs_per_cycle"], tree["macs_per_cycle_batch"]
    assert one["neon-dotprod"]["int8"]["q4_0"] > max(one["neon"]["int8"]["q4_0"], one["neon"]["float"]["f32"])
    assert batch["neon-i8mm"]["int8"]["q4_0"] > batch["neon-dotprod"]["int8"]["q4_0"]
    for name in [*code_names(), "w4_outliers"]:  # of one set alone
        assert one["neon-i8mm"]["int8"].pop(name) > 0
    one["neon-i8mm"].pop("int8_tables")
    assert one["neon-i8mm"].pop("half_sums")["f16"] > 2 * one["neon-i8mm"]["float"]["f16.halves"]
    halves = [one["neon-i8mm"]["float"].pop(name) for name in HALVES]
    assert halves[0] > 2 * one["neon-i8mm"]["float"]["f16"], "nothing is converted"
    assert one["neon-i8mm"] == one["neon-dotprod"]  # a single row has nothing to pair


@pytest.mark.parametrize("core", ["a720", "x4", "oryon"])
def test_more_rows_in_a_pass_make_more_of_the_weights(core):
    tree = yaml.safe_load((FOLDER / f"cpu-{core}.yaml").read_text())
    for name in ("q4_0", "w2g64z", "w4g128"):
        rates = [tree[key]["neon-i8mm"]["int8"][name] for key in RATES]
        assert rates == sorted(rates) and rates[-1] > 1.5 * rates[0]


@pytest.mark.parametrize("core", generate.CORES)
def test_bytes_of_codebooks_are_found_once_for_all_rows(core):
    tree = yaml.safe_load((FOLDER / f"cpu-{core}.yaml").read_text())
    keys = (*RATES, *generate.MORE.values())
    for kernel_set in generate.SETS:
        for name in codebooks.RUNS:
            rates = [tree[key][kernel_set]["int8"][name] for key in keys]
            assert rates == sorted(rates) and rates[-1] > 2 * rates[0]
            cycles = [rows / rate for rows, rate in zip(codebooks.BATCHES, rates)]  # per weight, which rows lengthen by equal parts
            each = (cycles[-1] - cycles[1]) / 62
            assert cycles[3] == pytest.approx(cycles[1] + 6 * each, rel=0.01)
            assert rates[0] < tree["macs_per_cycle"][kernel_set]["int8"]["q4_k"]


def test_rounded_tables_take_half_the_look_ups_of_exact_ones_and_are_dearer_to_make():
    tree = yaml.safe_load((FOLDER / "cpu-x4.yaml").read_text())
    rates, conversions = tree["macs_per_cycle"]["neon-i8mm"], tree["cycles_per_conversion"]["neon-i8mm"]
    for name in table_names():
        ratio = rates["int8_tables"][name] / rates["int8"][f"{name}.lut"]
        assert 1 <= ratio < 2 and (ratio > 1 or name.startswith("w1"))  # with one bit, loads of codes bind both
        assert conversions["int8_tables"][name] > conversions["int8"][f"{name}.lut"]


# A loop over a loop: the inner one multiplies and leaves for a prefetch out of line.
NESTED = """
    mov x1, 0
.L1:
    mov x2, 0
    fmla v9.4s, v1.4s, v2.4s
.L2:
    cbz x3, .L4
.L3:
    fmla v0.4s, v1.4s, v2.4s
    fmla v3.4s, v1.4s, v2.4s
    subs x2, x2, 1
    bne .L2
    subs x1, x1, 1
    bne .L1
    ret
.L4:
    prfm pldl2keep, [x0]
    b .L3
"""


def test_the_hot_loop_is_the_innermost_one_with_most_multiplies():
    function = loops.Function(loops.function_lines(["f:", *NESTED.splitlines(), "\t.size f"], "f"))
    assert len(function.loops) == 2 and len(function.innermost()) == 1
    lines = loops.function_lines(["f:", *NESTED.splitlines(), "\t.size f"], "f")
    short = loops.hot_path(lines, generate.FLOAT_MACS, longest=False)
    long = loops.hot_path(lines, generate.FLOAT_MACS, longest=True)
    assert [line.split()[0] for line in short] == ["cbz", "fmla", "fmla", "subs", "bne"]
    assert [line.split()[0] for line in long] == ["cbz", "prfm", "b", "fmla", "fmla", "subs", "bne"]
    assert loops.multiplies(short, generate.FLOAT_MACS) == 8


# A loop over blocks over one that would meet more chunks at once than a block has, over one of chunks. A block ends with a product.
THREE_DEEP = """
    mov x1, 0
.L1:
    ldr q1, [x1]
.L2:
    movi v2.4s, 0
.L3:
    tbl v0.16b, {v1.16b}, v2.16b
    subs x2, x2, 1
    bne .L3
    uaddw v3.4s, v3.4s, v0.4h
    subs x3, x3, 1
    bne .L2
    scvtf v3.4s, v3.4s
    subs x1, x1, 1
    bne .L1
    ret
"""


@pytest.mark.parametrize("rounds", [1, 2, 8])
def test_a_block_has_its_beginning_and_its_end_however_many_rounds_make_its_multiplies(rounds):
    lines = loops.function_lines(["f:", *THREE_DEEP.splitlines(), "\t.size f"], "f")
    names = [line.split()[0] for line in loops.block_path(lines, generate.TABLES, rounds * generate.TABLES["tbl"], longest=True)]
    assert names == ["ldr", "movi", *rounds * ["tbl", "subs", "bne"], "uaddw", "subs", "bne", "scvtf", "subs", "bne"]


@pytest.mark.all
@pytest.mark.parametrize(("bits", "kernel"), [(bits, kernel) for bits in generate.ENDINGS for kernel in generate.code_loops(bits)])
def test_prices_of_group_formats_have_the_end_of_a_block(same_tools, bits, kernel):
    path, work = generate.code_path(generate.compiled(generate.CODE_SET), kernel, bits)
    names = [line.split()[0] for line in path]
    results = work // generate.CODE_COLUMNS  # each a sum that becomes a float; four of them fill a register
    # By a conversion, or by taking off what was added to their bits.
    assert names.count("scvtf") + names.count("fsub") + names.count("fadd") >= results // 4, "sums of a block become floats"
    assert names.count("mls") + names.count("mla") + names.count("mul") >= results // 4, "and lose their zero points"
    assert names.count("fmla") >= results // 4, "and meet their scales"


# The compiler's check for overlap leads to a loop over single elements; what runs is the other way.
CHECKED = """
    cmp x0, x1
    bcc .L2
    ldr q0, [x0]
    str q0, [x1]
    ret
.L2:
    ldr s0, [x0]
    str s0, [x1], 4
    subs x2, x2, 1
    bne .L2
    ret
"""


def test_a_function_counts_by_its_shortest_way():
    lines = loops.function_lines(["f:", *CHECKED.splitlines(), "\t.size f"], "f")
    assert [line.split()[0] for line in loops.once_through(lines, 4)] == ["cmp", "bcc", "ldr", "str", "ret"]


def test_a_loop_runs_until_it_has_stored_its_results():
    lines = loops.function_lines(["f:", *CHECKED.splitlines()[6:], "\t.size f"], "f")
    assert [line.split()[0] for line in loops.once_through(lines, 3)] == 3 * ["ldr", "str", "subs", "bne"] + ["ret"]
    assert loops.stored_floats(["stp q0, q1, [x1]", "str s2, [x1]", "str q3, [sp, 16]"]) == 9


def test_accumulators_on_the_stack_are_seen():
    assert loops.carried(["ldr q0, [sp, 16]", "fmla v0.4s, v1.4s, v2.4s", "str q0, [sp, 16]"])
    assert loops.carried(["ldp q0, q1, [sp, 32]", "stp q0, q1, [sp, 32]"])
    assert not loops.carried(["str q0, [sp, 16]", "ldr q0, [sp, 16]"])  # within a round: written first
    assert not loops.carried(["ldr q0, [x0, 16]", "str q0, [x0, 16]"])


def test_a_loop_that_calls_is_refused():
    with pytest.raises(SystemExit, match="calls a function"):
        generate.cycles(["bl memcpy", "fmla v0.4s, v1.4s, v2.4s"], "cortex-a720")


@pytest.mark.all
def test_an_instruction_that_llvm_does_not_know_is_an_error(same_tools):
    with pytest.raises(SystemExit, match="llvm-mca-19 failed"):
        generate.cycles(["frobnicate v0.4s"], "cortex-a720")
