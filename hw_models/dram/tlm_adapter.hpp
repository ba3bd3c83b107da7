// DRAM at a TLM-2.0 socket, both ways: our channels as a target that any initiator can use, and any other simulator's target
// as the memory behind our ports. Non-blocking base protocol; timing only, no data moves.
#pragma once
#include <tlm.h>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <deque>
#include <memory>
#include <systemc>
#include <vector>

#include "hw_models/dram/line_memory.hpp"
#include "hw_models/event_loop.hpp"

namespace vitro::hw {

// A Context whose time is SystemC's, with the default resolution of 1 ps.
class SystemCContext final : public sc_core::sc_module, public Context {
 public:
  explicit SystemCContext(const sc_core::sc_module_name& name, std::uint64_t seed = 1);

  Picoseconds now() const override { return Picoseconds(static_cast<std::int64_t>(sc_core::sc_time_stamp().value())); }
  void at(Picoseconds when, Label label, Callback action) override;
  std::uint16_t device(std::string_view name) override { return loop_.device(name); }
  Rng& rng(std::string_view stream) override { return loop_.rng(stream); }
  bool tracing() const override { return false; }
  Track track(std::string_view, std::string_view) override { return {}; }
  void span(Track, Picoseconds, Picoseconds, std::string_view) override {}
  void counter(Track, double) override {}

 private:
  void run();

  EventLoop loop_;
  sc_core::sc_event wake_;
};

// A target of any length and alignment. END_REQ comes when the queues took the whole request: that is its back-pressure.
class TlmDramTarget final : public sc_core::sc_module, private LineSink {
 public:
  tlm_utils::simple_target_socket<TlmDramTarget> socket;

  // The context drives `memory`; both outlive it.
  TlmDramTarget(const sc_core::sc_module_name& name, Context& context, LineMemory& memory);

 private:
  struct Transfer {
    tlm::tlm_generic_payload* payload = nullptr;
    std::uint64_t next = 0;
    std::uint64_t to_push = 0, to_finish = 0;  // lines
  };

  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);
  void begin(std::uint32_t tag);
  void push_waiting();
  void respond();
  void end_response();
  void line_finished(std::uint32_t tag) override;
  void room() override { push_waiting(); }

  Context& context_;
  LineMemory& memory_;
  Label label_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> waiting_, ended_;  // for room; for the response phase
  bool responding_ = false;
};

// A memory of somebody else's: every line is one request of 32 bytes.
class TlmLineMemory final : public sc_core::sc_module, public LineMemory, private tlm::tlm_mm_interface {
 public:
  tlm_utils::simple_initiator_socket<TlmLineMemory> socket;

  TlmLineMemory(const sc_core::sc_module_name& name, Context& context, Bytes capacity);

  void connect(LineSink& sink) override { sink_ = &sink; }
  bool try_push(std::uint64_t address, bool write, std::uint32_t tag) override;
  Bytes capacity() const override { return capacity_; }

 private:
  struct Line final : tlm::tlm_generic_payload {
    using tlm_generic_payload::tlm_generic_payload;
    std::uint32_t tag = 0;
  };

  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);
  void end_request();
  void finish(tlm::tlm_generic_payload& payload, const sc_core::sc_time& delay);
  void free(tlm::tlm_generic_payload* payload) override;

  Context& context_;
  Bytes capacity_;
  Label label_;
  LineSink* sink_ = nullptr;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<Line*> idle_;
  unsigned char bytes_[32] = {};
  bool requesting_ = false;  // between BEGIN_REQ and END_REQ
};

}  // namespace vitro::hw
