#include "hw_models/cpu/core_costs.hpp"

#include <algorithm>
#include <utility>

namespace vitro::hw {
const std::vector<ParamSpec>& CoreCosts::params() {
  static const std::vector<ParamSpec> kParams = {
      {"kernel_set", Dimension::none, "neon-i8mm", "the engine takes the fastest set that a core can run", "neon|neon-dotprod|neon-i8mm"},
      {"macs_per_cycle_otherwise", Dimension::none, "4", "one 128-bit FMA per cycle on float32, for kernels without a measured rate"},
      {"elementwise_per_cycle", Dimension::none, "4", "one 128-bit float32 operation per cycle"},
      {"conversions_per_cycle", Dimension::none, "8", "one 128-bit half or byte conversion per cycle"},
      {"lookups_per_cycle", Dimension::none, "16", "one 128-bit TBL per cycle"},
      {"cycles_per_row_run", Dimension::none, "40", "a prefetcher that starts again at each run of weight bytes"},
  };
  return kParams;
}

const std::vector<std::string>& CoreCosts::tables() {
  static const std::vector<std::string> kTables = {"macs_per_cycle",         "macs_per_cycle_batch",    "macs_per_cycle_batch_4",
                                                   "macs_per_cycle_batch_8", "macs_per_cycle_batch_16", "macs_per_cycle_batch_64",
                                                   "cycles_per_conversion"};
  return kTables;
}

CoreCosts::CoreCosts(const Params& params)
    : one_(params.table("macs_per_cycle"), params.positive("macs_per_cycle_otherwise"), params.word("kernel_set")),
      batch_(params.table("macs_per_cycle_batch"), params.word("kernel_set")),
      more_{KernelTable(params.table("macs_per_cycle_batch_4"), params.word("kernel_set")),
            KernelTable(params.table("macs_per_cycle_batch_8"), params.word("kernel_set")),
            KernelTable(params.table("macs_per_cycle_batch_16"), params.word("kernel_set")),
            KernelTable(params.table("macs_per_cycle_batch_64"), params.word("kernel_set"))},
      conversions_(params.table("cycles_per_conversion"), params.word("kernel_set")),
      elementwise_per_cycle_(params.positive("elementwise_per_cycle")),
      conversions_per_cycle_(params.positive("conversions_per_cycle")),
      lookups_per_cycle_(params.positive("lookups_per_cycle")),
      cycles_per_run_(params.number("cycles_per_row_run")) {}

KernelCost CoreCosts::find(std::string_view variant, std::string_view format) {
  const KernelCost price = one_.find(variant, format);
  bool alike = batch_.find(variant, format) == price.id && conversions_.find(variant, format) == price.id;
  for (KernelTable& table : more_) alike = table.find(variant, format) == price.id && alike;
  VITRO_CHECK(alike, "tables that number unlike");
  return price;
}

// The time that a weight takes with all its rows is linear between the measured numbers of rows, and goes on beyond them.
// None where passes are priced instead.
std::optional<double> CoreCosts::measured_product(const Work& work) const {
  if (work.columns == 0 || work.rows == 0) return std::nullopt;
  struct Point {
    double rows, cycles_per_weight;
  };
  const std::pair<const KernelTable*, double> tables[] = {{&batch_, 2}, {&more_[0], 4}, {&more_[1], 8}, {&more_[2], 16}, {&more_[3], 64}};
  std::array<Point, 6> points{{{1, one_.time(1, work.kernel)}}};
  for (std::size_t i = 0; i < std::size(tables); ++i) {
    const std::optional<double> rate = tables[i].first->at(work.kernel);
    if (!rate || *rate <= 0) return std::nullopt;
    points[i + 1] = {tables[i].second, tables[i].second / *rate};
  }
  std::size_t i = 1;
  while (i + 1 < points.size() && work.rows > points[i].rows) ++i;
  const Point &low = points[i - 1], &high = points[i];
  const double share = (work.rows - low.rows) / (high.rows - low.rows);
  const double weights = static_cast<double>(work.macs) / work.rows;
  return weights * (low.cycles_per_weight + share * (high.cycles_per_weight - low.cycles_per_weight));
}

// Rows pass by as many as the loops take (multiply_groups() of engine/kernels/neon), what remains by fewer.
double CoreCosts::passes(std::uint64_t work_macs, std::uint32_t rows, std::uint16_t kernel) const {
  const auto macs = static_cast<double>(work_macs);
  double cycles = 0;
  std::uint32_t left = rows;
  for (const auto& [table, together] : {std::pair{&more_[1], 8u}, {&more_[0], 4u}, {&batch_, 2u}}) {
    const double rate = table->at(kernel).value_or(0);
    if (rate == 0) continue;
    const std::uint32_t passing = left / together * together;
    cycles += macs * passing / rows / rate;
    left -= passing;
  }
  return left == 0 ? cycles : cycles + one_.time(macs * left / rows, kernel);
}

double CoreCosts::product(const Work& work) const {
  if (const std::optional<double> cycles = measured_product(work)) return *cycles;
  if (work.transposed) return one_.time(static_cast<double>(work.macs), work.kernel);  // weighted rows are added to one result, one by one
  if (work.columns > 0) return passes(work.macs, work.rows, work.kernel);
  // Attention: query heads of a row share its keys, and those of a tile's rows what all of them see.
  const std::uint64_t shared = std::min(work.shared_macs, work.macs);
  const double together = shared > 0 ? passes(shared, std::max(1u, work.tile_queries), work.kernel) : 0;
  return together + passes(work.macs - shared, std::max(1u, work.query_heads), work.kernel);
}

double CoreCosts::conversions(const Work& work) const {
  const auto elements = static_cast<double>(work.conversions);
  if (work.macs > 0) {
    if (const auto each = conversions_.at(work.kernel)) return elements * *each;
  }
  return elements / conversions_per_cycle_;
}

double CoreCosts::without_runs(const Work& work) const {
  // An operator without products may have a rate of its own, "op.rope".
  const double own = work.macs == 0 && work.has_own_rate ? 1 / one_.time(1, work.kernel) : 0;
  const double elementwise = static_cast<double>(work.elementwise) / (own > 0 ? own : elementwise_per_cycle_);
  return (work.macs > 0 ? product(work) : 0) + conversions(work) + elementwise + static_cast<double>(work.lookups) / lookups_per_cycle_;
}

double CoreCosts::cycles(const Work& work) const {
  return (work.cycles ? *work.cycles : without_runs(work)) + work.row_runs * cycles_per_run_;
}

}  // namespace vitro::hw
