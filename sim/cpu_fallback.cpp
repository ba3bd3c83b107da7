#include "sim/cpu_fallback.hpp"

#include "sim/unit.hpp"

namespace vitro::sim {
namespace {

hw::Work share_of(hw::Work work, std::uint64_t n) {
  const auto cut = [n](auto& amount) { amount = (amount + n - 1) / n; };
  cut(work.columns);
  cut(work.read_bytes);
  cut(work.weight_bytes);
  cut(work.written_bytes);
  cut(work.recent_read_bytes);
  cut(work.recent_written_bytes);
  cut(work.macs);
  cut(work.shared_macs);
  cut(work.elementwise);
  cut(work.lookups);
  cut(work.conversions);
  cut(work.table_inputs);
  cut(work.row_runs);
  work.cycles.reset();
  return work;
}

}  // namespace

std::vector<SimUnit*> CpuFallback::cores() const {
  std::vector<SimUnit*> cores;
  for (const auto& unit : units_) {
    if (unit->caps().kind != UnitKind::core) continue;
    if (cores.empty() || unit->caps().core_class == cores[0]->caps().core_class) cores.push_back(unit.get());
  }
  return cores;
}

bool CpuFallback::possible() const { return !cores().empty(); }

void CpuFallback::run(const KernelCall& call, hw::Callback done) {
  const std::vector<SimUnit*> cores = this->cores();
  VITRO_CHECK(left_ == 0 && !cores.empty(), "a fallback without cores, or before the last one ended");
  left_ = cores.size();
  done_ = done;
  for (SimUnit* core : cores) {
    core->lend(share_of(core->price(call), cores.size()), cause_of(call), [this] {
      if (--left_ == 0) done_();
    });
  }
}

}  // namespace vitro::sim
