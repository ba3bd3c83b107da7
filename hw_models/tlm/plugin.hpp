// SystemC modules of others: as the DRAM of a device, or as agents that load it (docs/guide/plugins.md). This is the one header of vitro
// that such a shared object needs. It is compiled with the SystemC that vitro has and links neither, since there has to be one kernel: that
// of the process that loads it. At namespace scope it says
//
//   sc_core::sc_module* make(vitro::hw::TlmSite& site) {
//     auto* module = new Dram(site.name());
//     site.connect(module->socket);
//     return module;
//   }
//   VITRO_TLM_TARGET("acme_dram", "DRAM of ACME", vitro::hw::kLooselyTimed, kParameters, make)
//
// or VITRO_TLM_INITIATOR without the protocols, or both. It is never unloaded. C++17 is enough for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <systemc>
#include <tlm>

namespace vitro::hw {

// Raised with every change of what follows, up to the macros.
inline constexpr std::uint32_t kTlmAbi = 1;

// How a target wants to be called; the sum of both says that it knows both, and that the device file may choose. `loosely timed`:
// b_transport(), from several threads at once. `approximately timed`: the four phases of the base protocol.
enum TlmProtocols : std::uint32_t { kLooselyTimed = 1, kApproximatelyTimed = 2 };

// One key of the block that names the plug-in, beside vitro's own.
enum class TlmUnit : std::uint32_t { number, ratio, seconds, bytes, bytes_per_second, hertz };
struct TlmParameter {
  const char* key;
  TlmUnit unit;
  const char* fallback = "";  // as it would stand in a file: "15 ns"; empty: the key is required
  const char* source = "";    // of the fallback; results list it as assumed
  const char* choices = "";   // "open|closed": the value is one of these words, and the fallback is, too
};
inline constexpr TlmParameter kNoParameters[] = {{nullptr, TlmUnit::number}};

// What a module may know of its place. Requires: used in make() alone.
class TlmSite {
 public:
  virtual const char* name() const = 0;                  // for the module
  virtual double value(const char* key) const = 0;       // in the unit; of a key of the plug-in's parameters
  virtual const char* word(const char* key) const = 0;   // of a parameter with choices
  virtual std::uint64_t seed() const = 0;                // the run's, for this place: equal runs draw alike
  // The value of a key can not be: one message with the place where it was written.
  [[noreturn]] virtual void fail(const char* key, const char* problem) const = 0;

  // The module's socket, of any width: exactly one, with one binding.
  template <unsigned int Width>
  void connect(tlm::tlm_base_target_socket_b<Width>& socket) {
    connect_target(socket.get_base_export(), socket.get_base_port());
  }
  template <unsigned int Width>
  void connect(tlm::tlm_base_initiator_socket_b<Width>& socket) {
    connect_initiator(socket.get_base_port(), socket.get_base_export());
  }

 protected:
  ~TlmSite() = default;
  virtual void connect_target(sc_core::sc_export<tlm::tlm_fw_transport_if<>>&, sc_core::sc_port_b<tlm::tlm_bw_transport_if<>>&) = 0;
  virtual void connect_initiator(sc_core::sc_port_b<tlm::tlm_fw_transport_if<>>&, sc_core::sc_export<tlm::tlm_bw_transport_if<>>&) = 0;
};

// `abi` and `systemc` stand first in every version, and are compared before anything else is looked at.
struct TlmPluginInfo {
  std::uint32_t abi;
  const char* systemc;
  const char* name;
  const char* description;
  std::uint32_t protocols;  // of an initiator 0
  const TlmParameter* parameters;
  std::size_t parameter_count;
  sc_core::sc_module* (*make)(TlmSite&);  // the caller deletes the module
};

}  // namespace vitro::hw

#define VITRO_TLM_INFO_(SYMBOL, NAME, DESCRIPTION, PROTOCOLS, PARAMETERS, MAKE)                                        \
  extern "C" __attribute__((visibility("default"))) const ::vitro::hw::TlmPluginInfo SYMBOL;                         \
  const ::vitro::hw::TlmPluginInfo SYMBOL = {::vitro::hw::kTlmAbi, SC_VERSION, NAME,                   DESCRIPTION, \
                                             PROTOCOLS,            PARAMETERS, std::size(PARAMETERS), MAKE};
#define VITRO_TLM_TARGET(NAME, DESCRIPTION, PROTOCOLS, PARAMETERS, MAKE) \
  VITRO_TLM_INFO_(vitro_tlm_target, NAME, DESCRIPTION, PROTOCOLS, PARAMETERS, MAKE)
#define VITRO_TLM_INITIATOR(NAME, DESCRIPTION, PARAMETERS, MAKE) \
  VITRO_TLM_INFO_(vitro_tlm_initiator, NAME, DESCRIPTION, 0, PARAMETERS, MAKE)
