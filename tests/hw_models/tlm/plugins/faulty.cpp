// A target in several ways: as it should be, and with one fault each. What it does wrong while it runs, its key `fault` says.
#include <tlm_utils/simple_target_socket.h>

#include <stdexcept>
#include <string>

#include "hw_models/tlm/plugin.hpp"

namespace {

class Constant final : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Constant> socket;
  Constant(const sc_core::sc_module_name& name, std::string fault) : sc_module(name), socket("socket"), fault_(std::move(fault)) {
    socket.register_b_transport(this, &Constant::b_transport);
    SC_HAS_PROCESS(Constant);
    SC_THREAD(tick);
  }

 private:
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    delay += sc_core::sc_time(1, sc_core::SC_NS);
    if (fault_ == "silent") wait(never_);
    if (fault_ == "throws") throw std::runtime_error("row 7 is worn out");
    payload.set_response_status(fault_ == "error" ? tlm::TLM_GENERIC_ERROR_RESPONSE : tlm::TLM_OK_RESPONSE);
  }
  void tick() {
    for (;;) {
      wait(10, sc_core::SC_US);
      if (fault_ == "stops") sc_core::sc_stop();
      if (fault_ == "pauses") sc_core::sc_pause();
      if (fault_ == "reports") SC_REPORT_FATAL("acme/dram", "the clock is lost");
    }
  }
  std::string fault_;
  sc_core::sc_event never_;
};

using vitro::hw::TlmUnit;
[[maybe_unused]] constexpr vitro::hw::TlmParameter kParameters[] = {
    {"fault", TlmUnit::number, "none", "", "none|silent|throws|error|stops|pauses|reports"},
    {"speed", TlmUnit::bytes_per_second, "1 GB/s", "any"},
#ifdef TAKEN_KEY
    {"capacity", TlmUnit::bytes, "1 GB", "any"},
#endif
#ifdef WRONG_DEFAULT
    {"delay", TlmUnit::seconds, "soon", "any"},
#endif
};

[[maybe_unused]] sc_core::sc_module* make(vitro::hw::TlmSite& site) {
#ifdef THROWS
  throw std::runtime_error("no licence for this memory");
#endif
#ifdef UNKNOWN_KEY
  site.value("colour");
#endif
  if (site.value("speed") > 1e12) site.fail("speed", "is above what any memory reaches");
  auto* made = new Constant(site.name(), site.word("fault"));
#ifndef NOT_CONNECTED
  site.connect(made->socket);
#endif
  return made;
}

}  // namespace

#ifdef FAULTY_INFO
extern "C" const vitro::hw::TlmPluginInfo vitro_tlm_target;
const vitro::hw::TlmPluginInfo vitro_tlm_target = {FAULTY_INFO, "faulty", "of another version"};
#elif !defined(NEITHER)
VITRO_TLM_TARGET("constant", "for tests", vitro::hw::kLooselyTimed, kParameters, make)
#endif
