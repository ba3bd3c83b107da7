// TlmAgent: an initiator of somebody else's at our DRAM, whatever model that is. It is the target of the initiator's socket, by
// b_transport() and by the four phases of the base protocol; timing only, no data moves.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

#include "hw_models/context.hpp"
#include "hw_models/cumulative_sum.hpp"
#include "hw_models/dram.hpp"

namespace vitro::hw {

class TlmAgent final : public sc_core::sc_module, private tlm::tlm_fw_transport_if<> {
 public:
  // At most `outstanding` requests are in the DRAM at once: with the four phases END_REQ waits for that, and with b_transport() the caller
  // does. SystemC's time is the context's; context and DRAM outlive it. `initiator` names it in messages.
  TlmAgent(const sc_core::sc_module_name& name, Context& context, DramModel& dram, PortId port, std::uint32_t outstanding,
           std::string initiator);

  // Requires: once, before elaboration ends.
  void connect(sc_core::sc_port_b<tlm::tlm_fw_transport_if<>>& forward, sc_core::sc_export<tlm::tlm_bw_transport_if<>>& backward);

  double bytes_moved(Picoseconds begin, Picoseconds end) { return moved_.sum(begin, end); }

 private:
  struct Transfer {
    tlm::tlm_generic_payload* payload = nullptr;
    sc_core::sc_event* ended = nullptr;  // of b_transport(); else phases are sent
  };

  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

  void arrive(Transfer transfer, const sc_core::sc_time& delay);
  void submit_waiting();
  void end(std::uint32_t tag);
  void respond();
  void end_response();
  void fail_later(std::string problem);

  Context& context_;
  DramModel& dram_;
  PortId port_;
  std::uint32_t outstanding_, in_dram_ = 0;
  std::string initiator_;
  Label label_;
  sc_core::sc_export<tlm::tlm_bw_transport_if<>>* backward_ = nullptr;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> waiting_, ended_;  // for the DRAM; for the response phase
  bool responding_ = false;                    // END_RESP of the first of `ended_` will come
  CumulativeSum moved_;
  std::string problem_;
};

}  // namespace vitro::hw
