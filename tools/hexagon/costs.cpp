// Runs each kernel of a Hexagon worker in the emulator and prints how many packets its functions executed, as JSON.
//
//   hexagon-costs [WORKER [KERNEL...]]      WORKER: another one than this build's; KERNEL: names of those to run, all without any
//
// Kernels compute on zeros, since none of them branches on data, but for sums of rows, which leave out rows that rest.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/hexagon_session.hpp"
#include "engine/host/hexagon_stages.hpp"
#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro {
namespace {

using hexagon::Kind;
using Json = nlohmann::ordered_json;
using Counts = std::map<std::string, std::uint64_t>;

constexpr std::uint32_t kRows = 512, kColumns = 1024;  // of products: whole panels
constexpr std::uint32_t kTileRows = 4096;              // of those by look-up: of a model's matrix, so whole tiles
constexpr std::uint32_t kWeights = 1 << 15;            // of conversions

Counts executed(HexagonSession& session) {
  Counts counts;
  for (const PacketCount& count : session.transport().packets()) counts[count.function] = count.packets;
  if (counts.empty()) throw RunError("nothing counts packets here: the emulator's plug-in is missing");
  return counts;
}

struct Kernel {
  std::string name;
  hexagon::Operator op{};
  std::array<Bytes, 4> in{};
  bool ones = false;  // the second operand
};

Kernel product(const std::string& name, Kind kind, std::uint32_t batch, std::uint32_t rows = kRows) {
  Kernel kernel{name, {}, {}};
  kernel.op.kind = kind;
  kernel.op.rows = rows;
  kernel.op.columns = kColumns;
  kernel.op.batch = batch;
  kernel.op.out_bytes = batch * rows * 4;
  return kernel;
}

// Of blocks, by tiles of bytes whose sums are scaled.
Kernel block_product(const std::string& name, Kind kind) {
  Kernel kernel = product(name, kind, 1);
  const Bytes weights = kind == Kind::matmul_q8_0 ? hexagon::q8_strips_bytes(kRows, kColumns)
                                                  : hexagon::strips_bytes(hexagon::Scales::of_blocks, kRows, kColumns);
  kernel.in = {weights, Bytes{hexagon::kTile} * kColumns, kColumns / hexagon::kBlockColumns * sizeof(float)};
  return kernel;
}

// The same of rows as a file has them, wherever they lie: here all in one place.
Kernel rows_product(const std::string& name, Kind kind) {
  Kernel kernel = product(name, kind, 1);
  kernel.in = {hexagon::row_bytes_to(kernel.op, kColumns), Bytes{hexagon::kTile} * kColumns,
               kColumns / hexagon::kBlockColumns * sizeof(float), kRows * sizeof(std::uint32_t)};
  return kernel;
}

// The same of nibbles, whose scales stand behind the places.
Kernel apart_rows_product() {
  Kernel kernel = rows_product("q4_0 rows apart", Kind::matmul_q4_0_rows);
  kernel.op.scales = hexagon::Scales::apart;
  kernel.in[3] = hexagon::places_bytes(kernel.op);
  return kernel;
}

// Sums over rows, all of which fire, for one row of activations or for several, which share what makes floats of weights.
Kernel rows_sum(const std::string& format, std::uint32_t bits, std::uint32_t batch) {
  const std::string several = batch > 1 ? fmt::format(" {} times", batch) : "";
  Kernel kernel = product(fmt::format("{} rows added{}", format, several), Kind::add_rows, batch);
  kernel.op.bits = bits;
  kernel.op.out_bytes = batch * kColumns * sizeof(float);
  kernel.in = {hexagon::row_bytes_to(kernel.op, kColumns), Bytes{batch} * kRows * sizeof(float), 0, hexagon::places_bytes(kernel.op)};
  kernel.ones = true;
  return kernel;
}

Kernel look_up_product(std::uint32_t bits, std::uint32_t group, Kind kind, hexagon::TileShape tile) {
  const bool rounded = kind == Kind::matmul_lut_rounded, wide = kind == Kind::matmul_lut_wide;
  Kernel kernel = product(fmt::format("{} w{}g{}", rounded ? "rounded" : wide ? "wide" : "lut", bits, group), kind, 1, kTileRows);
  const hexagon::PlaneForm form{bits, group, 0, hexagon::Zeros::of_blocks, tile};
  kernel.op.bits = bits;
  kernel.op.group = group;
  kernel.op.tile = tile;
  kernel.op.zeros = form.zeros;
  kernel.in = {hexagon::lut_panels_bytes(form, kTileRows, kColumns), kColumns * (wide ? 2 : 1),
               kColumns / group * (rounded ? sizeof(hexagon::RoundedScale) : sizeof(hexagon::ActivationScale))};
  return kernel;
}

Kernel int8_product(std::uint32_t bits) {
  Kernel kernel = look_up_product(bits, 128, Kind::matmul_lut, hexagon::tile_shape(bits, 128, kTileRows));
  kernel.name = fmt::format("int8 tiles w{}", bits);
  kernel.op.kind = Kind::matmul_hmx_int8;
  kernel.op.zeros = bits == 1 ? hexagon::Zeros::signs : hexagon::Zeros::same;
  const hexagon::PlaneForm form{bits, 128, 0, kernel.op.zeros, kernel.op.tile};
  kernel.in = {hexagon::lut_panels_bytes(form, kTileRows, kColumns), Bytes{hexagon::kTile} * kColumns,
               2 * hexagon::kVectorBytes + sizeof(float)};
  return kernel;
}

Kernel f16_product() {
  Kernel kernel = product("f16 tiles", Kind::matmul_hmx_f16, 1);
  kernel.in = {hexagon::f16_strips_bytes(kRows, kColumns), Bytes{hexagon::kTile} * kColumns * 2, 0};
  return kernel;
}

// Two heads of as many keys as fill whole blocks, and columns.
Kernel attention() {
  constexpr std::uint32_t kKeys = 512, kQueries = 8, kHeads = 2, kHeadColumns = 128;
  Kernel kernel{"attention", {}, {}};
  hexagon::Operator& op = kernel.op;
  op.kind = Kind::attention;
  op.rows = op.pitch = kKeys;
  op.columns = kHeadColumns;
  op.batch = kQueries;
  op.bits = kHeads;
  op.stages = hexagon::plan_attention(hexagon::attention_pass(op), 2, 1);
  op.out_bytes = static_cast<std::uint32_t>(hexagon::attention_bytes(op));
  kernel.in = {hexagon::query_bytes(op) + hexagon::seen_bytes(op), Bytes{kHeads} * 2 * kKeys * kHeadColumns * 2, 65536};
  return kernel;
}

Kernel conversion(const std::string& name, Kind kind, std::array<Bytes, 4> in, Bytes out) {
  Kernel kernel{name, {}, in};
  kernel.op.kind = kind;
  kernel.op.rows = kWeights;
  kernel.op.out_bytes = static_cast<std::uint32_t>(out);
  return kernel;
}

std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  all.push_back(block_product("q8_0 blocks", Kind::matmul_q8_0));
  all.push_back(block_product("q4_0 blocks", Kind::matmul_q4_0));
  all.push_back(rows_product("q8_0 rows", Kind::matmul_q8_0_rows));
  all.push_back(rows_product("q4_0 rows", Kind::matmul_q4_0_rows));
  all.push_back(apart_rows_product());
  for (const auto& [format, bits] : {std::pair{"f16", 16u}, {"q8_0", 8u}, {"q4_0", 4u}}) {
    for (const std::uint32_t batch : {1u, 5u}) all.push_back(rows_sum(format, bits, batch));
  }
  for (const Kind kind : {Kind::matmul_lut, Kind::matmul_lut_rounded, Kind::matmul_lut_wide}) {
    for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
      for (const std::uint32_t group : {32u, 64u, 128u}) {
        const hexagon::TileShape chosen = hexagon::tile_shape(bits, group, kTileRows);
        all.push_back(look_up_product(bits, group, kind, chosen));
        // What the search could have chosen: one panel for each time that tables are loaded, and fewer tables.
        for (const std::uint16_t rows : {std::uint16_t{hexagon::kLutPanelRows}, chosen.rows}) {
          for (const std::uint16_t columns : {32, 64, 128, 256}) {
            if (columns < group || (rows == chosen.rows && columns == chosen.columns)) continue;
            all.push_back(look_up_product(bits, group, kind, {rows, columns}));
            all.back().name += fmt::format(" {} x {}", rows, columns);
          }
        }
      }
    }
  }
  all.push_back(f16_product());
  all.push_back(attention());
  for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) all.push_back(int8_product(bits));
  constexpr Bytes kHalf = kWeights / 2, kDouble = 2 * kWeights;
  all.push_back(conversion("dequantise", Kind::dequantise, {kHalf, kWeights / 16, 128}, 2 * kDouble));
  all.push_back(conversion("dequantise_fused", Kind::dequantise_fused, {kHalf, kWeights / 4, 0}, kDouble));
  all.push_back(conversion("unpack", Kind::unpack, {kHalf, 0, 0}, kDouble));
  all.push_back(conversion("copy", Kind::copy, {kHalf, 0, 0}, kHalf));
  all.push_back(conversion("exp", Kind::exp_table, {kDouble, 65536, 0}, kDouble));
  return all;
}

Json measure(HexagonSession& session, Kernel kernel) {
  session.clear_scratch();
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (kernel.in[i] == 0) continue;
    kernel.op.in[i] = session.scratch(kernel.in[i]).value_or_throw();
    std::memset(session.at(kernel.op.in[i]), 0, kernel.in[i]);
  }
  if (kernel.ones) std::fill_n(reinterpret_cast<float*>(session.at(kernel.op.in[1])), kernel.in[1] / sizeof(float), 1.0f);
  if (hexagon::is_staged(kernel.op.kind)) kernel.op.stages = hexagon::plan_stages(kernel.op, 0, {.threads = 1});
  const Counts before = executed(session);
  static_cast<void>(session.run({kernel.op}).value_or_throw());
  Json functions = Json::object();
  for (const auto& [function, packets] : executed(session)) {
    const auto old = before.find(function);
    const std::uint64_t more = packets - (old == before.end() ? 0 : old->second);
    if (function.starts_with("hvx_") && more > 0) functions[function] = more;
  }
  const bool attends = kernel.op.kind == Kind::attention;
  const hexagon::AttentionPass pass = hexagon::attention_pass(kernel.op);
  const std::uint64_t weights = attends ? pass.made()  // keys and values that become tiles
                                        : std::uint64_t{kernel.op.rows} * std::max(kernel.op.columns, 1u);
  return {{"kernel", kernel.name},
          {"weights", weights},
          {"masked", attends ? pass.masked() : 0},
          {"sums", attends ? pass.sums() : 0},
          {"columns", kernel.op.columns},
          {"tile", {kernel.op.tile.rows, kernel.op.tile.columns}},
          {"most_rows", kernel.op.group == 0 ? 0 : hexagon::tile_shape(kernel.op.bits, kernel.op.group).rows},
          {"packets", functions}};
}

int run(const std::string& worker, const std::set<std::string>& names) {
  HexagonSession session(make_qemu_hexagon({worker, {}, 64 * MiB, 8 * MiB}));
  Json all = Json::array();
  for (const Kernel& kernel : kernels()) {
    if (names.empty() || names.contains(kernel.name)) all.push_back(measure(session, kernel));
  }
  std::puts(all.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace vitro

int main(int argc, char** argv) {
  try {
    return vitro::run(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hexagon-costs: %s\n", error.what());
    return 1;
  }
}
