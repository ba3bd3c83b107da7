// TlmTargetMemory: a TLM-2.0 target of somebody else's as the memory behind our ports. Every line is one transaction; timing only, no data
// moves, so payloads point to bytes that mean nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

#include "hw_models/context.hpp"
#include "hw_models/dram/line_memory.hpp"

namespace vitro::hw {

class TlmTargetMemory final : public sc_core::sc_module,
                              public LineMemory,
                              private tlm::tlm_bw_transport_if<>,
                              private tlm::tlm_mm_interface {
 public:
  struct Limits {
    Bytes capacity = 0;
    Bytes line = 64;
    std::uint32_t outstanding = 64;  // transactions that the target has at once
    Picoseconds answer_within{0};    // of simulated time: more than that is an error of the target's
    bool loosely_timed = false;      // b_transport(), from `outstanding` threads; else the four phases
  };

  // SystemC's time is the context's, and both outlive it. `target` names it in messages. A target that answers with an error, breaks the
  // protocol or does not answer ends the run: RunError, thrown by an event of the context.
  TlmTargetMemory(const sc_core::sc_module_name& name, Context& context, const Limits& limits, std::string target);

  // Requires: once, before elaboration ends.
  void connect(sc_core::sc_export<tlm::tlm_fw_transport_if<>>& forward, sc_core::sc_port_b<tlm::tlm_bw_transport_if<>>& backward);

  void keep(std::unique_ptr<sc_core::sc_module> module) { module_ = std::move(module); }  // as long as this lives

  void connect(LineSink& sink) override { sink_ = &sink; }
  bool try_push(std::uint64_t address, bool write, std::uint32_t tag) override;
  Bytes capacity() const override { return round_down(limits_.capacity, limits_.line); }
  Bytes line() const override { return limits_.line; }

 private:
  enum class State : std::uint8_t { idle, requested, taken, answered };
  struct Line final : tlm::tlm_generic_payload {
    using tlm_generic_payload::tlm_generic_payload;
    std::uint32_t tag = 0;
    State state = State::idle;
    Picoseconds begun{0};
  };
  struct Caller {
    Line* line = nullptr;
    sc_core::sc_event called;
  };

  Line& take_line();
  void call(Caller& caller);  // a thread
  void begin_request(Line& line);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  void take_request(Line& line, const sc_core::sc_time& delay);
  void answer(Line& line, const sc_core::sc_time& delay, bool end_response);
  void finish(Line& line);
  void free(tlm::tlm_generic_payload* payload) override;
  void watch();
  void fail_later(std::string problem);  // the caller may be in a process of the target's
  std::string described(const Line& line) const;

  Context& context_;
  Limits limits_;
  std::string target_;
  Label label_;
  LineSink* sink_ = nullptr;
  sc_core::sc_export<tlm::tlm_fw_transport_if<>>* forward_ = nullptr;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<Line*> idle_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::vector<Caller*> idle_callers_;
  std::vector<unsigned char> bytes_;
  std::uint32_t in_flight_ = 0;
  bool requesting_ = false;  // between BEGIN_REQ and END_REQ
  bool refused_ = false;
  bool watching_ = false;
  std::string problem_;
  std::unique_ptr<sc_core::sc_module> module_;
};

}  // namespace vitro::hw
