#include "hw_models/npu/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/base/lut_tiling.hpp"
#include "engine/base/stage_plan.hpp"
#include "hw_models/npu/vector_thread.hpp"

namespace vitro::hw {
namespace {

[[noreturn]] void fail(const ParamTable& table, std::string_view key, std::string_view expected) {
  table.fail(key, fmt::format("is not known (expected {})", expected));
}

std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> parts{""};
  for (const char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Of bit-serial weights, by their format's name: w2g64z, or w2 and q4_0, whose blocks have 32 columns.
std::optional<lut::LowBitFormat> planes_of(std::string_view format) {
  if (format == "q4_0") return lut::LowBitFormat{4, 32};
  if (format.size() < 2 || format[0] != 'w' || format[1] < '1' || format[1] > '4') return std::nullopt;
  lut::LowBitFormat planes{static_cast<std::uint32_t>(format[1] - '0'), 32};
  if (format.size() == 2) return planes;
  const std::string_view rest = format.substr(2);
  for (const std::uint32_t group : {32u, 64u, 128u}) {
    if (rest.starts_with(fmt::format("g{}", group))) return lut::LowBitFormat{planes.bits, group};
  }
  return std::nullopt;
}

// The tile that the device's registers and TCM have room for, no larger than the one that the packets were counted with.
void fit_tile(Kernel& kernel, std::string_view format, const HexagonParameters& parts) {
  const std::optional<lut::LowBitFormat> planes = planes_of(format);
  if (!planes || kernel.tile_rows == 0) return;
  lut::TilingLimits limits;
  limits.vector_bytes = static_cast<std::uint32_t>(parts.vector_bytes);
  limits.tcm = parts.tcm;
  limits.threads = kernel.threads;
  limits.buffers = hexagon::groups_ahead(parts.buffers);
  limits.mma = parts.tile;
  const std::optional<lut::Tiling> found = lut::search_tiling(limits, *planes);
  if (!found) return;  // the planner says so when a call comes
  kernel.tile_rows = std::min(kernel.tile_rows, found->rows);
  kernel.tile_columns = std::min(kernel.tile_columns, found->columns);
}

// Those that are kept as they come.
enum class Of { both, hmx, hvx };
struct Quantity {
  std::string_view name;
  double Kernel::*member;
  Of of = Of::both;
};
constexpr Quantity kQuantities[] = {
    {"packets_per_weight", &Kernel::packets_per_weight},
    {"packets_per_placed_weight", &Kernel::packets_per_placed_weight, Of::hmx},
    {"gathers_per_weight", &Kernel::gathers_per_weight},
    {"packets_per_lookup", &Kernel::packets_per_lookup},
    {"packets_per_element", &Kernel::packets_per_element},
    {"gathers_per_element", &Kernel::gathers_per_element},
    {"packets_per_masked", &Kernel::packets_per_masked},
    {"packets_per_sum", &Kernel::packets_per_sum},
    {"packets_per_block", &Kernel::packets_per_block, Of::hmx},
    {"packets_per_activation", &Kernel::packets_per_activation},
    {"packets_per_mac", &Kernel::packets_per_mac, Of::hvx},
};

bool is_of(Of unit, bool matrix) { return unit == Of::both || (unit == Of::hmx) == matrix; }

}  // namespace

HexagonKernels::HexagonKernels(const ParamTable& table, const HexagonParameters& parts, const ParamTable& more)
    : threads_(std::min(parts.hvx_threads, parts.scalar_threads)) {
  general_.packets_per_mac = parts.packets_per_mac;
  general_.packets_per_lookup = packets_per_lookup(parts, {16, 16}, 16);
  for (const auto& [key, value] : table.values) read(table, key, value);
  const std::size_t first = table_.size();
  for (const auto& [key, value] : more.values) read(more, key, value, first);
  for (const auto& [name, given, kernel] : table_) {
    if (kernel.packets_per_block > 0 && !kernel.by_blocks()) {
      table.fail(fmt::format("hmx.{}.{}.packets_per_block", kPathNames[static_cast<std::size_t>(kernel.path)], name),
                 "is of products by blocks (expected packets_per_sum beside it)");
    }
    if (!kernel.by_blocks() || (kernel.bits == 8 && kernel.tile_rows == 0 && kernel.tile_columns == 0)) continue;
    table.fail(fmt::format("hmx.{}.{}.packets_per_sum", kPathNames[static_cast<std::size_t>(kernel.path)], name),
               "is of products by blocks (expected bits: 8 beside it, and no tile_rows or tile_columns)");
  }
  for (Entry& each : table_) fit_tile(each.kernel, std::string_view(each.name).substr(each.name.find('.') + 1), parts);
  native_.matrix = true;
  native_.threads = threads_;
  // Calls without multiply-adds never ask for a price: they have entry 0 and all threads.
  known_.push_back({"", false, general_});
  known_[0].kernel.threads = threads_;
}

HexagonKernels::Entry* HexagonKernels::entry(std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [name](const Entry& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

void HexagonKernels::read(const ParamTable& table, const std::string& key, double value, std::size_t stands) {
  const std::vector<std::string> parts = parts_of(key);
  if (parts.size() != 5 && parts.size() != 6)
    fail(table, key, "unit.path.variant.format.quantity, such as hmx.dma.float.q4_0.packets_per_weight");
  if (parts[0] != "hmx" && parts[0] != "hvx") fail(table, key, "a name that starts with hmx or hvx");
  const auto path = std::find(std::begin(kPathNames), std::end(kPathNames), parts[1]);
  if (path == std::end(kPathNames)) fail(table, key, "dma, l2fetch or vector_load after the first dot");

  const std::string name = parts[2] + "." + parts[3] + (parts.size() == 6 ? "." + parts[4] : "");
  Kernel start = general_;
  start.matrix = parts[0] == "hmx";
  start.path = static_cast<Path>(path - std::begin(kPathNames));
  start.threads = threads_;
  Entry* mine = entry(table_, name);
  if (mine != nullptr && mine < table_.data() + stands) return;
  if (mine == nullptr) mine = &table_.emplace_back(Entry{name, true, start});
  Kernel& kernel = mine->kernel;
  if (kernel.matrix != start.matrix || kernel.path != start.path)
    fail(table, key, "the same unit and path for all keys of a variant and format");

  const std::string& what = parts.back();
  const auto* plain = std::ranges::find_if(kQuantities, [&](const Quantity& q) { return q.name == what && is_of(q.of, kernel.matrix); });
  if (plain != std::end(kQuantities)) {
    kernel.*plain->member = value;
  } else if (what == "bits" && kernel.matrix && (value == 16 || value == 8 || value == 4)) {
    kernel.bits = static_cast<std::uint32_t>(value);
  } else if (what == "tile_rows" && value >= 1) {
    kernel.tile_rows = static_cast<std::uint32_t>(value);
  } else if (what == "tile_columns" && value >= 1) {
    kernel.tile_columns = static_cast<std::uint32_t>(value);
  } else if (what == "threads" && value >= 1) {
    kernel.threads = std::min(threads_, static_cast<std::uint32_t>(value));
  } else {
    fail(table, key,
         "packets_per_weight, gathers_per_weight, packets_per_element, gathers_per_element, packets_per_lookup, packets_per_sum, "
         "packets_per_masked, packets_per_activation, tile_rows, tile_columns, threads; packets_per_mac on hvx; "
         "packets_per_placed_weight, packets_per_block, bits 16, 8 or 4 on hmx");
  }
}

KernelCost HexagonKernels::find(std::string_view variant, std::string_view format) {
  const std::string name = fmt::format("{}.{}", variant, format);
  const Entry* mine = entry(known_, name);
  if (mine == nullptr) {
    const Entry* listed = entry(table_, name);
    // What `fused` stood for before its two kinds had names of their own.
    for (const std::string_view kind : {"two_level", "scaled_tables"}) {
      if (listed == nullptr && variant == "fused") listed = entry(table_, fmt::format("{}.{}", kind, format));
    }
    mine = &known_.emplace_back(listed != nullptr     ? *listed
                                : variant == "native" ? Entry{name, true, native_}
                                                      : Entry{name, false, general_});
  }
  const bool per_element = mine->kernel.packets_per_element > 0 || mine->kernel.gathers_per_element > 0;
  return {static_cast<std::uint16_t>(mine - known_.data()), mine->from_table, mine->from_table && per_element};
}

}  // namespace vitro::hw
