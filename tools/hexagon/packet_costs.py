"""The kernel table of the Hexagon models, from the kernels themselves.

    python tools/hexagon/packet_costs.py [--tool build/release/tools/hexagon/hexagon-costs] [--root .]
                                          [--out configs/kernels/hexagon-v75.yaml] [--ieee ...-v79.yaml] [--layouts ...-v75-layouts.yaml]

Integer stages are priced by the packets that they execute under qemu-hexagon, as the emulator's plug-in counts them. Stages
in qfloat, which the emulator can not run, are priced by the packets in their compiled loop times the trips that it makes.
docs/design/hexagon.md has the assumptions. --root: the tree whose engine/kernels/hexagon is compiled and run.

Entries, as unit.path.variant.format: quantities (hw_models/npu/kernels.hpp):
  hmx.dma.{float,hmx}.{q8_0,q4_0}        packets_per_weight      weights to fp16 tiles, by tables
                     packets_per_placed_weight  of rows in places, which become strips first; of int8 and f16, too
  hmx.dma.int8.{q8_0,q4_0}               the int8 contract by tiles of bytes (engine/base/block_plan.hpp); bits: 8
                     packets_per_weight      bytes or nibbles to tiles of bytes; a block's scales are kept
                     packets_per_sum         per output, block of 32 columns and activation row: the integer sum, scaled and added
                     packets_per_block       per output column, block and up to four activation rows: the scale that they share
                     packets_per_activation  float32 activations to int8
  hmx.dma.{float,hmx}.q4_0_tile          packets_per_weight      tile groups as they are stored (TTS-NPU 5.1), scales spread by look-up
  hmx.dma.{float,hmx}.w4_outliers        packets_per_weight      nibbles as q4_0's and, after them, 1 % of weights by scatters
  hmx.dma.hmx.f16                        packets_per_weight      rows as the file has them to tiles; float.f16: they lie as tiles
  hmx.dma.two_level.w{1..4}g{32,64,128}[z|r]      packets_per_weight  two-level dequantisation: planes to codes, codes to fp16 by tables,
                                                                 scales by lanes
  hmx.dma.scaled_tables.w{1..4}g{32,64,128}[z|r]  packets_per_weight  the same with scale and zero point in the second table (T-MAN 4.1),
                                                                 making of tables included; w4, q4_0: nibbles, no planes
  hmx.dma.int8_rows.w{1..4}g{32,64,128}[r]  packets_per_weight     bit planes to int8 tiles by tables, rows of one scale; bits: 8
  hmx.dma.convert.q4_0, copy.q4_0        packets_per_weight      ablations
  hmx.dma.{uncoalesced,scatter}.q4_0, convert.w4g64z   in the second file, from tools/hexagon/layouts.cpp: what the papers compare with
  hvx.dma.lut.FORMAT                     bit-serial look-up (T-MAN 4.3); FORMAT: q4_0, w{1..4}g{32,64,128}[z|r], and w{1..4} as w{1..4}g32
                     packets_per_activation  Precompute: per column and activation row, once for all matrices with that input
                     packets_per_mac         Linear: per multiply-add, planes widened and added up
                     packets_per_sum         Finalize: per output row, group of columns and activation row: zero point, scales, spilled sums
                     tile_rows, tile_columns what the loops take at a time (engine/base/lut_tiling.hpp), at most; of hmx.dma.* too
  hvx.dma.int8_tables.FORMAT             the same with tables of int8 (vlut32)
  hvx.dma.int16_tables.FORMAT            the same with activations of 14 bits, whose sums of four fill tables of int16 (vlut16)
  hvx.dma.int16_activations.{g32,g64,g128}  packets_per_element  float32 activations to 14 bits in blocks
  hvx.dma.int8_activations.{g32,g64,g128}  packets_per_element  float32 activations to int8 in blocks: what tables are made of
  hvx.dma.attention.{exp_table,exp_f32,exp_f16}   packets_per_element  a step of attention per score, of blocks of 128 keys: maximum, exp,
                                                                 sum, what is kept (engine/base/attention_plan.hpp)
                     gathers_per_element     vgather instructions among them
                     packets_per_weight      keys and values to tiles, per element
                     packets_per_masked      per score of a tile of keys that not all rows see: the others' become the lowest half
  hvx.dma.attention.quotient             packets_per_element     the result, per element: division by the sum, from tiles to rows
                     packets_per_sum         per row and head: the reciprocal of its sum
  hvx.dma.softmax.{exp_table,exp_f32,exp_f16}   on-chip softmax of fp16 scores (TTS-NPU 5.2.1), per element
                     packets_per_element     row maximum, subtraction, exp, sum in float32
                     gathers_per_element     vgather instructions among them, which wait for memory
"""
# Long because each entry of the table has its kernel and what a trip of it serves.
import argparse
import functools
import json
import math
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILER, DISASSEMBLER, EMULATOR = "clang++-19", "llvm-objdump-19", "qemu-hexagon"
COMMON = ["--target=hexagon-unknown-linux-musl", "-mhvx", "-mhvx-length=128B", "-std=c++20", "-O2", "-ffreestanding", "-fno-builtin",
          "-fno-exceptions", "-fno-rtti"]
# As cmake/hexagon.cmake builds the worker; V73 is the newest that clang 19 compiles for.
WORKER = [*COMMON, "-mv66", "-fno-threadsafe-statics", "-ffp-contract=off", "-c"]
WITHOUT_WINDOWS = ("attention_work", "rounded_kernels")
LINK = ["--target=hexagon-unknown-linux-musl", "-nostdlib", "-static", "-fuse-ld=lld"]
FLOAT = [*COMMON, "-mv73", "-mhvx-qfloat", "-fno-unroll-loops", "-c"]
IEEE = [*FLOAT, "-mhvx-ieee-fp", "-DVITRO_IEEE_FLOATS"]
WORKER_FILES = ("add_kernels add_work attention_kernels attention_work block_kernels block_work dma freestanding half_kernels "
                "layout_kernels lut_kernels lut_work main matrix_unit operators matmul outlier_kernels rounded_kernels row_kernels "
                "scaled_kernels stage_threads stage_work stages strip_kernels system table_kernels tile_kernels wide_kernels").split()
FLOAT_FILES = ("float_kernels", "float_finalize", "float_planes", "float_scaled")

# Weights, or multiply-adds of one row, that one trip through the hot loop of a qfloat kernel serves.
TRIP = {"qf_dequantise_q4": 2048, "qf_convert_q4": 2048, "qf_dequantise_columns": 1024, "qf_dequantise_bytes": 1024}
TRIP |= {"qf_place_outliers": 64}  # outliers
TRIP |= {"qf_scale_sums": 4 * 32, "qf_scale_sums_of_row": 32}  # sums of a block
TRIP |= {f"qf_quantise{wide}_g{block}": 128 for wide in ("", "_wide") for block in (32, 64, 128)}
# Sums of a panel's blocks in a tile of 256 columns; weights of a block of 128 rows; elements of a vector of scores.
TRIP |= {f"qf_lut_finalize{form}_g{group}": 128 * 256 // group
         for form in ("", "_zeros", "_signs", "_rounded", "_rounded_zeros", "_rows", "_signs_rows", "_rounded_rows", "_wide", "_wide_zeros",
                      "_wide_signs", "_wide_rows", "_wide_signs_rows")
         for group in (32, 64, 128)}
TRIP |= {f"qf_lut_dequantise_w{bits}g{group}{z}": 128 * group for bits in (1, 2, 3, 4) for group in (32, 64) for z in ("", "z", "r")}
# 64 columns of a panel's 128 rows by tables that hold scales; tables of a group, of its smallest size.
TRIP |= {f"qf_scaled_unit_w{bits}{form}": 128 * 64 for bits in (1, 2, 3, 4) for form in ("", "_g32")}
TRIP |= {f"qf_scaled_tables_w{bits}{z}": 128 * 32 for bits in (1, 2, 3, 4) for z in ("", "z")}
TRIP |= {f"qf_softmax_{name}": 64 for name in ("max", "exp_table", "exp_f16", "exp_f32", "sum")}
TRIP |= {f"qf_attention_exp_{name}": 2 * 128 for name in ("table", "f16", "f32")} | {"qf_attention_quotient": 128}
FORMATS = [(bits, group, z) for bits in (1, 2, 3, 4) for group in (32, 64, 128) for z in ("", "z", "r")]
ROWS = {"": "", "z": "", "r": "_rows"}  # stages of formats with one scale per row are their own


@functools.cache
def fixed_addresses():
    """The compiler orders some choices by addresses: without randomised ones it gives the same code each time."""
    prefix = ["setarch", "-R"]
    return prefix if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL).returncode == 0 else []


def compile_with(flags, names, root, out):
    """Where the tree and the result lie, and what the environment holds, is nothing that addresses may depend on either."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        tree, result = Path(folder) / "tree", Path(folder) / "result"
        tree.symlink_to(Path(root).resolve())
        sources = [tree / (name if "/" in name else f"engine/kernels/hexagon/hvx_worker/{name}.cpp") for name in names]
        command = [*fixed_addresses(), shutil.which(COMPILER), *flags, "-I", tree, *sources, "-o", result]
        subprocess.run(command, check=True, cwd="/", env={})
        shutil.move(result, out)
    return out


def compile_worker(root, folder, names=WORKER_FILES):
    """An object for each source, in `folder`."""
    for name in names:
        flags = [*WORKER, *(["-mllvm", "-window-sched=off"] if name in WITHOUT_WINDOWS else [])]
        compile_with(flags, [name], root, Path(folder) / f"{name}.o")


def link_worker(folder):
    objects, worker = [Path(folder) / f"{name}.o" for name in WORKER_FILES], Path(folder) / "worker"
    subprocess.run([shutil.which(COMPILER), *LINK, *objects, "-o", worker], check=True)
    return worker


def build_worker(root, folder):
    compile_worker(root, folder)
    return link_worker(folder)


def loops(disassembly):
    """-> {function: packets of its hardware loop}. A packet begins at a brace; :endloop0 ends the loop that loop0 began."""
    found, function, starts, packets = {}, None, None, []
    for line in disassembly.splitlines():
        if match := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            function, starts, packets = match.group(1), None, []
        match = re.match(r"\s*([0-9a-f]+):(?:\s[0-9a-f]{2})+\s+[0-9a-f]{8}\s(.*)", line)
        if not match:
            continue
        if "{" in match.group(2):
            packets.append(int(match.group(1), 16))
        if begun := re.search(r"loop0\((?:##)?0x([0-9a-f]+)", line):
            starts = int(begun.group(1), 16)
        if ":endloop0" in line:
            if function in found:
                raise SystemExit(f"{function} has more than one loop: which one is hot?")
            found[function] = sum(1 for packet in packets if packet >= starts)
    return found


def float_loops(root, names=FLOAT_FILES, flags=FLOAT):
    """-> {kernel: packets of a trip through its loop} of what these sources have."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            code = compile_with(flags, [name], root, Path(folder) / "float.o")
            text = subprocess.run([DISASSEMBLER, "-d", "--mcpu=hexagonv73", code], check=True, capture_output=True, text=True).stdout
            found |= loops(text)
    return found


def per_trip(found, trip=TRIP):
    """-> {kernel: packets per weight or multiply-add} of all loops."""
    if set(found) != set(trip):
        raise SystemExit(f"expected loops of {sorted(trip)}, found {sorted(found)}")
    return {kernel: found[kernel] / trip[kernel] for kernel in trip}


def executed_packets(tool, worker, *kernels):
    """-> {kernel: (weights, {function: packets}, rows, tile, rows of the largest tile, masked scores, sums)} of one run of each kernel,
    or of those named. The last two are attention's."""
    out = subprocess.run([tool, worker, *kernels], check=True, capture_output=True, text=True).stdout
    return {entry["kernel"]: (entry["weights"], entry["packets"], entry["weights"] // max(entry["columns"], 1), entry["tile"],
                              entry["most_rows"], entry["masked"], entry["sums"])
            for entry in json.loads(out)}


def per_weight(executed, kernel, function):
    weights, packets, *_ = executed[kernel]
    return packets[function] / weights


def prices(executed, static):
    """The table: {unit: {path: {variant: {format: {quantity: packets}}}}}."""
    precompute = executed["lut w4g64"]
    columns = precompute[0] / precompute[2]

    def tile(kernel):
        return {"tile_rows": executed[kernel][4], "tile_columns": executed[kernel][3][1]}

    def look_up(bits, group, z):
        finalize = "qf_lut_finalize" + ("_zeros" if z == "z" else "_signs" if bits == 1 else "") + ROWS[z] + f"_g{group}"
        return {"packets_per_activation": precompute[1]["hvx_lut_precompute"] / columns,
                "packets_per_mac": per_weight(executed, f"lut w{bits}g{group}", "hvx_lut_linear"), "packets_per_sum": static[finalize],
                **tile(f"lut w{bits}g{group}")}

    def look_up_rounded(bits, group, z):
        kernel = f"rounded w{bits}g{group}"
        return {"packets_per_activation": executed[kernel][1]["hvx_lut_precompute_rounded"] / columns,
                "packets_per_mac": per_weight(executed, kernel, "hvx_lut_linear_rounded"),
                "packets_per_sum": static["qf_lut_finalize_rounded" + ("_zeros" if z == "z" else "") + ROWS[z] + f"_g{group}"],
                **tile(kernel)}

    def look_up_wide(bits, group, z):
        kernel = f"wide w{bits}g{group}"
        finalize = "qf_lut_finalize_wide" + ("_zeros" if z == "z" else "_signs" if bits == 1 else "") + ROWS[z] + f"_g{group}"
        return {"packets_per_activation": executed[kernel][1]["hvx_lut_precompute_wide"] / columns,
                "packets_per_mac": per_weight(executed, kernel, "hvx_lut_linear_wide"), "packets_per_sum": static[finalize], **tile(kernel)}

    def all_formats(price):
        prices = {f"w{bits}g{group}{z}": price(bits, group, z) for bits, group, z in FORMATS}
        prices |= {f"w{bits}": price(bits, 32, "") for bits in (1, 2, 3, 4)}
        return prices | {"q4_0": prices["w4g32"]}

    lut, int8_tables = all_formats(look_up), all_formats(look_up_rounded)
    # A group of 128 has the loop body of two of 64, but for making its scales ready once in place of twice.
    two_level = {f"w{bits}g{group}{z}": {"packets_per_weight": static[f"qf_lut_dequantise_w{bits}g{min(group, 64)}{z}"],
                                         **tile(f"lut w{bits}g{group}")}
                 for bits, group, z in FORMATS}
    def scaled(bits, group, z):
        """Tables are made for each group, or once for rows of one scale."""
        tables = 0 if z == "r" else static[f"qf_scaled_tables_w{bits}{z}"] * 32 / group
        return {"packets_per_weight": tables + static[f"qf_scaled_unit_w{bits}{'_g32' if group == 32 and z != 'r' else ''}"],
                **tile(f"lut w{bits}g{group}")}

    def of_blocks(form):
        made, placed = (sum(executed[f"{form} {lie}"][1].values()) / executed[f"{form} {lie}"][0] for lie in ("blocks", "rows"))
        one, four = static["qf_scale_sums_of_row"], 4 * static["qf_scale_sums"]
        each = (four - one) / 3  # of one more row of activations; the rest is done once per column and block
        return {"packets_per_weight": made, "packets_per_placed_weight": placed, "packets_per_sum": each, "packets_per_block": one - each,
                "packets_per_activation": static["qf_quantise_g32"], "bits": 8}

    scaled_tables = {f"w{bits}g{group}{z}": scaled(bits, group, z) for bits, group, z in FORMATS}
    int8_rows = {f"w{bits}g{group}{z}": {"packets_per_weight": per_weight(executed, f"int8 tiles w{bits}", "hvx_int8_tiles"), "bits": 8,
                                      **tile(f"lut w{bits}g{group}")}
                 for bits, group, z in FORMATS if z != "z"}
    passes = static["qf_softmax_max"] + static["qf_softmax_sum"]
    softmax = {name: {"packets_per_element": passes + static[f"qf_softmax_{name}"]} for name in ("exp_table", "exp_f32", "exp_f16")}
    softmax["exp_table"]["gathers_per_element"] = 1 / 64
    attention = {name: {"packets_per_element": static[f"qf_attention_{name}"]} for name in ("exp_table", "exp_f32", "exp_f16", "quotient")}
    attention["exp_table"]["gathers_per_element"] = 5 / 256  # four vectors of a pair of rows, and what it keeps
    made, packets, *_, masked, sums = executed["attention"]
    for name in ("exp_table", "exp_f32", "exp_f16"):
        attention[name]["packets_per_weight"] = (packets["hvx_key_tiles"] + packets["hvx_value_tiles"]) / made
        attention[name]["packets_per_masked"] = packets["hvx_mask_scores"] / masked
    attention["quotient"]["packets_per_sum"] = packets["hvx_reciprocals"] / sums
    int8_activations, int16_activations = ({f"g{block}": {"packets_per_element": static[f"qf_quantise{wide}_g{block}"]}
                                            for block in (32, 64, 128)} for wide in ("", "_wide"))
    once = {name: {"packets_per_weight": per_weight(executed, name, f"hvx_{name}")} for name in ("dequantise_fused", "copy")}
    tile_groups = {"packets_per_weight": static["qf_dequantise_q4"]}
    strip = {form: per_weight(executed, f"{form} rows", f"hvx_{form[:2]}_rows") for form in ("q8_0", "q4_0")}
    f16_tiles = per_weight(executed, "f16 tiles", "hvx_f16_tiles")
    bytes_to_tiles = {"packets_per_weight": static["qf_dequantise_bytes"],
                      "packets_per_placed_weight": strip["q8_0"] + static["qf_dequantise_bytes"]}
    # A strip of 1024 columns: 32 rows with 11 outliers each, in whole vectors.
    placed_outliers = math.ceil(32 * 11 / TRIP["qf_place_outliers"]) / (32 * 1024)  # vectors per weight
    outliers = {"packets_per_weight": static["qf_dequantise_columns"]
                + placed_outliers * TRIP["qf_place_outliers"] * static["qf_place_outliers"], "gathers_per_weight": placed_outliers}
    q4_placed = {"packets_per_placed_weight": strip["q4_0"] + static["qf_dequantise_columns"]}
    return {
        "hmx": {"dma": {
            "float": {"f16": {"packets_per_weight": 0, "packets_per_placed_weight": f16_tiles}, "q8_0": bytes_to_tiles,
                      "q4_0": tile_groups | q4_placed, "q4_0_tile": tile_groups, "w4_outliers": outliers},
            "int8": {form: of_blocks(form) for form in ("q8_0", "q4_0")},
            "hmx": {"f16": {"packets_per_weight": f16_tiles}, "q8_0": bytes_to_tiles,
                    "q4_0": {"packets_per_weight": static["qf_dequantise_columns"]} | q4_placed, "q4_0_tile": tile_groups,
                    "w4_outliers": outliers},
            "two_level": two_level,
            "scaled_tables": {"w4": once["dequantise_fused"], "q4_0": once["dequantise_fused"]} | scaled_tables,
            "int8_rows": int8_rows,
            "convert": {"q4_0": {"packets_per_weight": static["qf_convert_q4"]}},
            "copy": {"q4_0": once["copy"]}}},
        "hvx": {"dma": {"lut": lut, "int8_tables": int8_tables, "int16_tables": all_formats(look_up_wide),
                        "attention": attention, "int8_activations": int8_activations, "int16_activations": int16_activations,
                        "softmax": softmax}}}


def by_tile(executed):
    """-> {kernel: {tile: packets per multiply-add of Linear}}, the search's choice first."""
    tiles = {}
    for kernel, (weights, packets, _, (rows, columns), *_) in executed.items():
        if linear := next((count for function, count in packets.items() if "lut_linear" in function), 0):
            tiles.setdefault(" ".join(kernel.split()[:2]), {})[f"{rows} x {columns}"] = linear / weights
    return tiles


def versions():
    clang = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout.split("version ")[1].split()[0]
    qemu = subprocess.run([EMULATOR, "--version"], capture_output=True, text=True, check=True).stdout.split("version ")[1].split()[0]
    return f"clang {clang}, qemu-hexagon {qemu}"


def flow(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    return f"{value:.4g}"


def table_lines(executed, static):
    lines = []
    for unit, paths in prices(executed, static).items():
        for path, variants in paths.items():
            lines += [f"  {unit}:", f"    {path}:"]
            for variant, formats in variants.items():
                lines += [f"      {variant}:"] + [f"        {name}: {flow(quantities)}" for name, quantities in formats.items()]
    return lines


WRITTEN = "# Written by tools/hexagon/packet_costs.py from the compiled kernels: do not edit, run it again (docs/design/hexagon.md)."


def document(executed, trips):
    """trips: of all float loops, in qfloat."""
    lines = [WRITTEN, "# The `npu:` part of a device file takes it by `include:`. By unit, path, then variant and weight format.",
             "kernels:", "  kind: derived",
             '  source: "packets of the HVX kernels of engine/kernels/hexagon: executed for integers, static times trips for qfloat; '
             f'{versions()}"', *table_lines(executed, per_trip(trips))]
    lines.append("# Executed packets:")
    for kernel, (weights, packets, *_) in executed.items():
        if " x " in kernel:
            continue
        each = ", ".join(f"{function} {count}" for function, count in packets.items())
        lines.append(f"#   {kernel}, {weights} weights or elements: {each}")
    lines.append("# Packets per multiply-add of Linear by the tile that its loops take (rows x columns), the search's choice first:")
    lines += [f"#   {kernel}: " + ", ".join(f"{tile} {packets:.4g}" for tile, packets in tiles.items())
              for kernel, tiles in by_tile(executed).items()]
    lines.append("# Packets of a trip through a loop in qfloat, and what it serves:")
    lines += [f"#   {kernel}: {trips[kernel]} for {TRIP[kernel]}" for kernel in TRIP]
    return "\n".join(lines) + "\n"


def ieee_document(executed, root):
    """V79 has IEEE floats in place of qfloat. clang 19 compiles for V73 at most, which has them as an option."""
    trips = float_loops(root, flags=IEEE)
    return "\n".join([
        WRITTEN, "# V79: hexagon-v75.yaml with float stages in IEEE floats.", "kernels:", "  kind: assumed",
        '  source: "as hexagon-v75.yaml; float stages in the IEEE floats that V73 has as an option, since the compiler knows no V79; '
        f'{versions()}"', *table_lines(executed, per_trip(trips)),
        "# Packets of a trip through a loop in IEEE floats, and what it serves:",
        *(f"#   {kernel}: {trips[kernel]} for {TRIP[kernel]}" for kernel in TRIP)]) + "\n"


# What the papers' layouts and conversions are compared with: weights of a trip.
COMPARED = {"qf_uncoalesced_q4": 128, "qf_scatter_q4": 32, "qf_convert_planes_w4": 1024, "qf_convert_planes_w4_in_halves": 1024}


def layouts_document(root):
    trips = float_loops(root, ["tools/hexagon/layouts.cpp"])
    static = per_trip(trips, COMPARED)
    price = {"uncoalesced": ("q4_0", {"packets_per_weight": static["qf_uncoalesced_q4"]}),
             "scatter": ("q4_0", {"packets_per_weight": static["qf_scatter_q4"], "gathers_per_weight": 1 / COMPARED["qf_scatter_q4"]}),
             "convert": ("w4g64z", {"packets_per_weight": static["qf_convert_planes_w4"]}),
             "convert_in_halves": ("w4g64z", {"packets_per_weight": static["qf_convert_planes_w4_in_halves"]})}
    return "\n".join([
        "# Written by tools/hexagon/packet_costs.py from tools/hexagon/layouts.cpp: do not edit, run it again (docs/design/hexagon.md).",
        "# What hexagon-v75.yaml does not have: layouts and conversions that TTS-NPU and T-MAN compare theirs with.",
        "more_kernels:", "  kind: derived",
        f'  source: "static packets of the loops of tools/hexagon/layouts.cpp; a vscatter waits for TCM as a vgather does '
        f'(tts_vgather_latency); {versions()}"',
        "  hmx:", "    dma:",
        *(f"      {variant}: {{{form}: {flow(quantities)}}}" for variant, (form, quantities) in price.items()),
        "# Packets of a trip, and the weights that it serves:",
        *(f"#   {kernel}: {trips[kernel]} for {COMPARED[kernel]}" for kernel in COMPARED)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, default=ROOT / "build/release/tools/hexagon/hexagon-costs", help="built by CMake")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path, default=ROOT / "configs/kernels/hexagon-v75.yaml")
    parser.add_argument("--ieee", type=Path, default=ROOT / "configs/kernels/hexagon-v79.yaml")
    parser.add_argument("--layouts", type=Path, default=ROOT / "configs/kernels/hexagon-v75-layouts.yaml")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        executed = executed_packets(options.tool, build_worker(options.root, folder))
    for path, text in ((options.out, document(executed, float_loops(options.root))), (options.ieee, ieee_document(executed, options.root)),
                       (options.layouts, layouts_document(options.root))):
        path.write_text(text)
        print(f"{path}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
