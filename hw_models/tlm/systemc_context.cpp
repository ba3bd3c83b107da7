#include "hw_models/tlm/systemc_context.hpp"

namespace vitro::hw {

SystemCContext::SystemCContext(const sc_core::sc_module_name& name, std::uint64_t seed) : sc_module(name), loop_(seed) {
  SC_HAS_PROCESS(SystemCContext);
  SC_METHOD(run);
  sensitive << wake_;
  dont_initialize();
}

// An sc_event keeps the earlier of two notifications, which is all that is needed: run() asks again.
void SystemCContext::at(Picoseconds when, Label label, Callback action) {
  loop_.at(when, label, action);
  wake_.notify(sc_core::sc_time::from_value(static_cast<std::uint64_t>((when - now()).count())));
}

void SystemCContext::run() {
  loop_.run_until(now());
  if (!loop_.empty()) wake_.notify(sc_core::sc_time::from_value(static_cast<std::uint64_t>((loop_.next() - now()).count())));
}

}  // namespace vitro::hw
