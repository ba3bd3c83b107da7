"""tools/hexagon/packet_costs.py: the committed packets are those of the kernels in this tree, and the simulated phone runs on them."""
import re
import shutil
import sys

import pytest
import yaml
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "hexagon"))
import packet_costs  # noqa: E402

COMMITTED = ROOT / "configs" / "kernels" / "hexagon-v75.yaml"
TOOL = ROOT / "build" / "release" / "tools" / "hexagon" / "hexagon-costs"

needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, (packet_costs.COMPILER, packet_costs.DISASSEMBLER, packet_costs.EMULATOR, "ld.lld-19"))) or not TOOL.exists(),
    reason="needs clang-19, lld-19, llvm-19, qemu-hexagon and a build")


def changed_tree(tmp_path, file, old, new):
    """A copy of the kernels with one thing changed."""
    for folder in ("engine/base", "engine/kernels/hexagon", "engine/quant"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    source = tmp_path / "engine/kernels/hexagon" / file
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    return tmp_path


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """The worker of this tree, beside the objects that it is linked from."""
    return packet_costs.build_worker(ROOT, tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="module")
def measured(worker):
    """All kernels of this tree: a minute of the emulator."""
    return packet_costs.executed_packets(TOOL, worker)


@pytest.fixture(scope="module")
def trips():
    """Packets of all float loops of this tree."""
    return packet_costs.float_loops(ROOT)


@pytest.fixture
def executed(worker, tmp_path):
    def of(root, source, kernel):
        """-> what a kernel executes in a tree whose worker differs in one source: weights, {function: packets}."""
        folder = shutil.copytree(worker.parent, tmp_path / "worker")
        packet_costs.compile_worker(root, folder, [source])
        return packet_costs.executed_packets(TOOL, packet_costs.link_worker(folder), kernel)[kernel][:2]
    return of


@pytest.mark.all
@needs_tools
def test_the_committed_packets_are_those_of_the_kernels_as_they_are(measured, trips):
    if packet_costs.versions() not in COMMITTED.read_text():
        pytest.skip(f"the committed packets were counted with other versions than {packet_costs.versions()}")
    if not packet_costs.fixed_addresses():
        pytest.skip("the compiler's choices depend on addresses, which this machine randomises")
    assert packet_costs.document(measured, trips) == COMMITTED.read_text()
    assert packet_costs.ieee_document(measured, ROOT) == COMMITTED.with_name("hexagon-v79.yaml").read_text()
    assert packet_costs.layouts_document(ROOT) == COMMITTED.with_name("hexagon-v75-layouts.yaml").read_text()


def test_the_table_holds_what_the_models_ask_for():
    table = yaml.safe_load(COMMITTED.read_text())["kernels"]
    assert table["kind"] == "derived" and "packets" in table["source"]
    tiles = table["hmx"]["dma"]
    # Groups as deep as a tile: bytes are converted where nibbles are looked up. One loop for every contract, as the worker has one.
    assert tiles["hmx"]["q8_0"]["packets_per_weight"] > tiles["hmx"]["q4_0"]["packets_per_weight"] > 0
    assert tiles["float"]["q8_0"] == tiles["hmx"]["q8_0"]
    # Blocks in int8: bytes are copied, nibbles masked, both for less than halves of them take; what it costs are the sums.
    blocks, quantise = tiles["int8"], table["hvx"]["dma"]["int8_activations"]["g32"]
    assert blocks["q8_0"]["packets_per_weight"] < blocks["q4_0"]["packets_per_weight"] < tiles["hmx"]["q4_0"]["packets_per_weight"]
    for name, price in blocks.items():
        assert price["bits"] == 8 and price["packets_per_activation"] == quantise["packets_per_element"]
        assert 0 < price["packets_per_block"] < price["packets_per_sum"]  # the scale that four rows share
    # A transpose: five exchanges of sixteen pairs of vectors for 2048 weights, at best one in a packet; tiles at rest need none.
    assert 80 / 2048 < tiles["hmx"]["f16"]["packets_per_weight"] < 1.6 * 80 / 2048 and tiles["float"]["f16"]["packets_per_weight"] == 0
    # Rows in places become strips, in every contract by the same loop: a transpose of bytes, and what closes up their blocks. Of nibbles it
    # has twice the weights. It costs less than a gather of four bytes of each row would keep TCM busy.
    for name, most in (("q8_0", 8 * 24 / 1024), ("q4_0", 4 * 24 / 1024)):
        dense = {"float": tiles["hmx"], "hmx": tiles["hmx"], "int8": tiles["int8"]}
        added = [tiles[variant][name]["packets_per_placed_weight"] - form[name]["packets_per_weight"] for variant, form in dense.items()]
        assert added[0] == pytest.approx(added[1], abs=2e-5) and most * 80 / (24 * 32) < added[0] < most, name
        assert added[1] < added[2] < added[1] + 0.003, name  # executed: what makes tiles is called for each piece
    assert tiles["float"]["f16"]["packets_per_placed_weight"] == tiles["hmx"]["f16"]["packets_per_weight"]
    # Bytes for the matrix unit: cheaper than halves of the same planes, dearer with each plane.
    bytes_of = tiles["int8_rows"]
    assert all(kernel["bits"] == 8 and kernel["packets_per_weight"] < tiles["two_level"][name]["packets_per_weight"]
               for name, kernel in bytes_of.items())
    packets = [bytes_of[f"w{bits}g128"]["packets_per_weight"] for bits in (1, 2, 3, 4)]
    assert packets == sorted(packets) and packets[0] < packets[3]
    # What the papers' ablations rank: copying, fused tables, tables and scales, conversion.
    # T-MAN's floating operations are of a table's entries, so they shrink with the group and grow with the bits (4.1).
    scaled, multiplied = tiles["scaled_tables"], tiles["two_level"]
    for name in ("w2g64z", "w2g128z", "w3g64z", "w3g128z"):
        assert scaled[name]["packets_per_weight"] < multiplied[name]["packets_per_weight"], name
    assert scaled["w4g128z"]["packets_per_weight"] < scaled["w4g64z"]["packets_per_weight"] < scaled["w4g32z"]["packets_per_weight"]
    assert tiles["hmx"]["q4_0_tile"] == tiles["float"]["q4_0_tile"]  # one loop
    assert tiles["float"]["q4_0_tile"]["packets_per_weight"] == tiles["float"]["q4_0"]["packets_per_weight"]
    ranked = [tiles["copy"]["q4_0"], tiles["scaled_tables"]["w4"], tiles["float"]["q4_0"], tiles["convert"]["q4_0"]]
    assert ranked == sorted(ranked, key=lambda kernel: kernel["packets_per_weight"])
    planes = table["hvx"]["dma"]["lut"]
    for group in (32, 64, 128):
        packets = [planes[f"w{bits}g{group}z"]["packets_per_mac"] for bits in (1, 2, 3, 4)]
        assert packets == sorted(packets) and packets[3] < 4 * packets[0]
        # Zero points are Finalize's; planes do not know them.
        assert planes[f"w2g{group}z"]["packets_per_mac"] == planes[f"w2g{group}"]["packets_per_mac"]
        assert planes[f"w2g{group}z"]["packets_per_sum"] > planes[f"w2g{group}"]["packets_per_sum"]
    # Bytes: more columns before sums widen, a shift beside a look-up; tables are dearer to make, and the unit costs Finalize a product.
    rounded = table["hvx"]["dma"]["int8_tables"]
    assert set(rounded) == set(planes)
    for name, price in rounded.items():
        assert price["packets_per_mac"] < planes[name]["packets_per_mac"]
        assert price["packets_per_activation"] > planes[name]["packets_per_activation"]
        assert price["packets_per_sum"] > planes[name]["packets_per_sum"]
    # Activations in 14 bits: what is found is widened at once.
    wide = table["hvx"]["dma"]["int16_tables"]
    assert set(wide) == set(planes)
    assert all(price[key] > planes[name][key] for name, price in wide.items()
               for key in ("packets_per_activation", "packets_per_mac", "packets_per_sum"))
    assert wide["w4g64"]["packets_per_mac"] < 2 * planes["w4g64"]["packets_per_mac"]
    # Wider groups widen and finalise less often.
    assert planes["w2g128"]["packets_per_mac"] < planes["w2g64"]["packets_per_mac"] < planes["w2g32"]["packets_per_mac"]
    assert len({entry["packets_per_activation"] for entry in planes.values()}) == 1
    # One layout: decode by either kind of tables and prefill take the same tile.
    for name, price in planes.items():
        tile = {key: price[key] for key in ("tile_rows", "tile_columns")}
        for other in (rounded[name], wide[name], tiles["two_level"].get(name), tiles["scaled_tables"].get(name)):
            assert other is None or name in ("w4", "q4_0") or {key: other[key] for key in tile} == tile
    softmax = table["hvx"]["dma"]["softmax"]
    ways = [softmax[name]["packets_per_element"] for name in ("exp_table", "exp_f16", "exp_f32")]
    assert ways == sorted(ways) and softmax["exp_table"]["gathers_per_element"] == pytest.approx(1 / 64, rel=1e-3)
    steps = table["hvx"]["dma"]["attention"]  # all that a block takes, so more than its three loops
    assert all(steps[name]["packets_per_element"] > price for name, price in zip(("exp_table", "exp_f16", "exp_f32"), ways))
    assert all(steps[name]["packets_per_weight"] > 0 for name in ("exp_table", "exp_f16", "exp_f32"))
    assert steps["quotient"]["packets_per_element"] > 0
    # Masks know no exp, so they are alike and cheaper; a reciprocal is a chain of scalars for a row.
    assert len({steps[name]["packets_per_masked"] for name in ("exp_table", "exp_f16", "exp_f32")}) == 1
    assert 0 < steps["exp_table"]["packets_per_masked"] < steps["exp_table"]["packets_per_element"] < steps["quotient"]["packets_per_sum"]


@pytest.mark.all
@needs_tools
def test_an_instruction_less_in_attention_is_seen(tmp_path, executed):
    """Half of the tiles of values are not stored: wrong, and cheaper."""
    root = changed_tree(tmp_path, "hvx_worker/strip_kernels.cpp", "    *b++ = Q6_V_hi_W(both);\n", "")
    weights, packets = executed(root, "strip_kernels", "attention")
    committed = yaml.safe_load(COMMITTED.read_text())["kernels"]["hvx"]["dma"]["attention"]["exp_f32"]["packets_per_weight"]
    assert (packets["hvx_key_tiles"] + packets["hvx_value_tiles"]) / weights < 0.97 * committed


@pytest.mark.all
@needs_tools
def test_masks_and_reciprocals_of_attention_are_seen(tmp_path, executed):
    """An instruction more for each pair of rows that is masked, and a step of Newton's less: dearer, and cheaper."""
    old = "    s[i] = seen_scores"
    root = changed_tree(tmp_path / "tree", "hvx_worker/attention_kernels.cpp", old, '    asm volatile("nop");' + old)
    source = root / "engine/kernels/hexagon/attention_stages.hpp"
    text = source.read_text()
    assert text.count("step < 4") == 1
    source.write_text(text.replace("step < 4", "step < 3"))
    _, packets = executed(root, "attention_kernels", "attention")
    counted = dict(re.findall(r"(hvx_mask_scores|hvx_reciprocals) (\d+)", COMMITTED.read_text()))
    assert packets["hvx_mask_scores"] > 1.04 * int(counted["hvx_mask_scores"])
    assert packets["hvx_reciprocals"] < 0.95 * int(counted["hvx_reciprocals"])


@pytest.mark.all
@needs_tools
def test_an_instruction_less_in_blocks_of_int8_is_seen(tmp_path, executed):
    """Nibbles that keep their offset, and sums that are not converted: wrong, and cheaper."""
    committed = yaml.safe_load(COMMITTED.read_text())["kernels"]["hmx"]["dma"]["int8"]["q4_0"]
    low, high = "Q6_Vb_vsub_VbVb(Q6_V_vand_VV(both, mask), eight)", "Q6_Vb_vsub_VbVb(Q6_V_vand_VV(shifted_nibbles(both), mask), eight)"
    root = changed_tree(tmp_path / "nibbles", "hvx_worker/block_kernels.cpp", low, "both")
    source = root / "engine/kernels/hexagon/hvx_worker/block_kernels.cpp"
    source.write_text(source.read_text().replace(high, "shifted_nibbles(both)"))
    weights, packets = executed(root, "block_kernels", "q4_0 blocks")
    assert sum(packets.values()) / weights < 0.9 * committed["packets_per_weight"]
    sums = "I::subtract(I::add_word(sums[r], magic), magic)"
    root = changed_tree(tmp_path / "sums", "float_stages.hpp", sums, "I::from_float(sums[r])")
    packets = packet_costs.float_loops(root, ["float_kernels"])["qf_scale_sums"] / packet_costs.TRIP["qf_scale_sums"]
    of_four_rows = committed["packets_per_sum"] + committed["packets_per_block"] / 4
    assert packets < 0.95 * of_four_rows


def test_ieee_floats_spare_conversions():
    """V79's table: what is dequantised by products costs less, what has no floats the same (TTS-NPU 5.2.2: qfloat before V79)."""
    qfloat, ieee = (yaml.safe_load(path.read_text())["kernels"] for path in (COMMITTED, COMMITTED.with_name("hexagon-v79.yaml")))
    assert ieee["kind"] == "assumed"
    for variant, form in (("float", "q4_0"), ("float", "q8_0"), ("hmx", "q8_0"), ("hmx", "q4_0"),
                          ("two_level", "w4g64z"), ("scaled_tables", "w4g64z")):
        assert ieee["hmx"]["dma"][variant][form]["packets_per_weight"] < qfloat["hmx"]["dma"][variant][form]["packets_per_weight"], variant
    assert ieee["hmx"]["dma"]["int8_rows"] == qfloat["hmx"]["dma"]["int8_rows"]
    softmax = [table["hvx"]["dma"]["softmax"] for table in (ieee, qfloat)]
    assert all(softmax[0][name]["packets_per_element"] < softmax[1][name]["packets_per_element"] for name in softmax[1])


def test_the_tile_that_the_search_chooses_needs_the_fewest_packets():
    """Of all tiles that were counted, within 3 %: the search knows registers and memory, no packets."""
    lines = re.findall(r"^#   (?:lut|rounded) (\w+): (.*)$", COMMITTED.read_text(), re.MULTILINE)
    assert len(lines) == 24
    for name, counted in lines:
        packets = [float(entry.split()[-1]) for entry in counted.split(", ")]
        assert len(packets) >= 4, name
        assert packets[0] <= 1.03 * min(packets), name
        assert max(packets) > 1.1 * packets[0], name  # the choice matters


@pytest.mark.all
@needs_tools
def test_a_slower_loop_of_the_chosen_tile_is_seen(tmp_path, executed):
    root = changed_tree(tmp_path, "hvx_worker/lut_kernels.cpp", "    const HVX_Vector* w = vectors_at(planes);\n",
                        '    const HVX_Vector* w = vectors_at(planes);\n' + '    asm volatile("nop");' * 40)
    weights, packets = executed(root, "lut_kernels", "lut w2g64")
    committed = yaml.safe_load(COMMITTED.read_text())["kernels"]["hvx"]["dma"]["lut"]["w2g64"]["packets_per_mac"]
    assert packets["hvx_lut_linear"] / weights > 1.1 * committed


def test_loops_are_counted_by_packets():
    text = """
00000000 <one>:
       0: 00 40 00 78   78004000 { \tloop0(0x8,r3)
       4: 00 c0 00 7f   7f00c000   \tnop }
       8: 00 c0 00 28   2800c000 { \tv0 = vmem(r0+#0x0) }
       c: 00 40 00 28   28004000 { \tv1 = vmem(r0+#0x1)
      10: 00 80 00 28   28008000   \tv2 = v1 }  :endloop0
      14: 00 c0 9f 52   529fc000 { \tjumpr r31 }
"""
    assert packet_costs.loops(text) == {"one": 2}
    with pytest.raises(SystemExit, match="more than one loop"):
        packet_costs.loops(text + text.replace("00000000 <one>:", ""))


def counted_packets():
    """-> {kernel: packets of its functions, per weight} of the committed table's comments."""
    lines = re.findall(r"^#   ([^,:]+), (\d+) weights or elements: (.*)$", COMMITTED.read_text(), re.MULTILINE)
    return {kernel: {name: int(count) / int(weights) for name, count in re.findall(r"(\w+) (\d+)", functions)}
            for kernel, weights, functions in lines}


def test_rows_of_nibbles_are_cheaper_without_scales_between_them_and_sums_of_rows_are_scalars():
    counted, tiles = counted_packets(), yaml.safe_load(COMMITTED.read_text())["kernels"]["hmx"]["dma"]
    apart, inside = counted["q4_0 rows apart"], counted["q4_0 rows"]
    assert 0.6 * inside["hvx_q4_rows"] < apart["hvx_nibble_rows"] < 0.8 * inside["hvx_q4_rows"]
    assert apart["hvx_nibble_tiles"] == inside["hvx_nibble_tiles"]
    # At best a packet has two multiply-adds. The simulated NPU takes Down of hot neurons for dense weights: a price of another kernel.
    sums = {form: counted[f"{form} rows added"]["hvx_add_rows"] for form in ("f16", "q8_0", "q4_0")}
    assert 1 < sums["f16"] < sums["q8_0"] < sums["q4_0"] < 2
    assert all(sums[form] > 20 * tiles["float"][form]["packets_per_weight"] for form in sums)


@pytest.mark.all
@needs_tools
def test_an_instruction_more_in_sums_of_rows_is_seen(tmp_path, executed):
    old = "    Sums sums{y[0], y[1], y[2], y[3]};\n"
    root = changed_tree(tmp_path, "hvx_worker/add_kernels.cpp", old, 'asm volatile("nop"); asm volatile("nop");' + old)
    weights, packets = executed(root, "add_kernels", "f16 rows added")
    assert packets["hvx_add_rows"] / weights > counted_packets()["f16 rows added"]["hvx_add_rows"] + 1 / 16  # of four columns of four rows


PHONE_RUN = """
experiment: counted
machine: sim
device: {device}
model: {{gguf: {model}}}
engine: {{policy: dense, units: [cpu0, npu], activations: float}}
workload: {{prompt: "Once upon a time", output_tokens: 8}}
"""


def phone(tmp_path, table):
    """The phone with another kernel table: include it where the preset would."""
    text = (ROOT / "configs/npu/hexagon_v75.yaml").read_text()
    assert text.count("../kernels/hexagon-v75.yaml") == 1
    text = text.replace("../kernels/hexagon-v75.yaml", str(table)).replace("../kernels/", f"{ROOT}/configs/kernels/")
    (tmp_path / "npu.yaml").write_text(text)
    device = (ROOT / "configs/devices/oneplus12.yaml").read_text()
    assert device.count("include: ../npu/hexagon_v75.yaml") == 1
    device = device.replace("../npu/hexagon_v75.yaml", str(tmp_path / "npu.yaml")).replace("../", f"{ROOT}/configs/")
    (tmp_path / "phone.yaml").write_text(device)
    model = ROOT / "configs/models/embedded/stories-reglu-3m.q4_0.gguf"
    (tmp_path / "run.yaml").write_text(PHONE_RUN.format(device=tmp_path / "phone.yaml", model=model))
    return tmp_path / "run.yaml"


@pytest.mark.all
@needs_tools
def test_a_changed_kernel_changes_the_simulated_phone(tmp_path, native, measured, trips):
    """Instructions that do nothing, in each super-group of a stage in qfloat: a dearer kernel, and later tokens."""
    begin = "  const auto low = I::template look_up<0>(in, values), high ="
    root = changed_tree(tmp_path / "tree", "float_stages.hpp", begin, 'asm volatile("nop");' * 6 + begin)
    (tmp_path / "slow").mkdir()
    (tmp_path / "fast").mkdir()
    slow = tmp_path / "slow.yaml"
    slow.write_text(packet_costs.document(measured, trips | packet_costs.float_loops(root, ["float_kernels"])))
    before, after = (yaml.safe_load(path.read_text())["kernels"]["hmx"]["dma"]["float"]["q4_0"] for path in (COMMITTED, slow))
    assert after["packets_per_weight"] > 1.5 * before["packets_per_weight"]
    fast_run = native("run", phone(tmp_path / "fast", COMMITTED), "--json").json
    slow_run = native("run", phone(tmp_path / "slow", slow), "--json").json
    assert fast_run["tokens"] == slow_run["tokens"]
    assert slow_run["metrics"]["decode_tokens_per_s"] < fast_run["metrics"]["decode_tokens_per_s"]


@pytest.mark.all
@needs_tools
def test_a_changed_integer_kernel_executes_other_packets(tmp_path, executed):
    root = changed_tree(tmp_path, "hvx_worker/row_kernels.cpp", "const HVX_Vector most = ", 'asm volatile("nop"); const HVX_Vector most = ')
    weights, packets = executed(root, "row_kernels", "q8_0 rows")
    committed = yaml.safe_load(COMMITTED.read_text())["kernels"]["hmx"]["dma"]["int8"]["q8_0"]
    added = committed["packets_per_placed_weight"] - committed["packets_per_weight"]
    assert packets["hvx_q8_rows"] / weights > added + 0.9 * 32 / 4096  # one for each row of a piece
