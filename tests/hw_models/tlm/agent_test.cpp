#include "hw_models/tlm/agent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tlm_utils/simple_initiator_socket.h>

#include <memory>

#include "hw_models/tlm/systemc_context.hpp"
#include "tests/hw_models/tlm/fresh_context.hpp"

namespace vitro::hw {
namespace {

using sc_core::sc_time;
using ::testing::HasSubstr;

// Every request takes a microsecond, whatever else is there.
class SlowDram final : public DramModel {
 public:
  explicit SlowDram(Context& context) : context_(context) {}
  PortId add_port(const PortSpec&) override { return PortId(1); }
  void submit(const DramRequest& request, Callback done) override {
    requests.push_back(request);
    context_.at(context_.now() + Picoseconds(1'000'000), {9, 9}, done);
  }
  DramTotals totals() override { return {}; }
  double bytes_moved(Picoseconds, Picoseconds) override { return 0; }
  double peak_rate(Picoseconds, Picoseconds) override { return 0; }
  std::vector<DramRequest> requests;

 private:
  Context& context_;
};

// Sends three writes of 64 bytes at once, one request phase after another, and answers each BEGIN_RESP 100 ns later with END_RESP.
struct Phases final : sc_core::sc_module, tlm::tlm_mm_interface {
  tlm_utils::simple_initiator_socket<Phases> socket;
  explicit Phases(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    socket.register_nb_transport_bw(this, &Phases::backward);
    SC_HAS_PROCESS(Phases);
    SC_THREAD(send);
    SC_METHOD(end_response);
    sensitive << responded;
    dont_initialize();
  }
  void send() {
    for (std::uint64_t i = 0; i < 3; ++i) {
      payloads.push_back(std::make_unique<tlm::tlm_generic_payload>(this));
      tlm::tlm_generic_payload& payload = *payloads.back();
      payload.acquire();
      payload.set_command(tlm::TLM_WRITE_COMMAND);
      payload.set_address(i * 4096);
      payload.set_data_ptr(bytes);
      payload.set_data_length(64);
      tlm::tlm_phase phase = tlm::BEGIN_REQ;
      sc_time delay = sc_core::SC_ZERO_TIME;
      EXPECT_EQ(socket->nb_transport_fw(payload, phase, delay), tlm::TLM_ACCEPTED);
      wait(request_ended);
      taken.push_back(sc_core::sc_time_stamp());
    }
  }
  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_time&) {
    if (phase == tlm::END_REQ) request_ended.notify(sc_core::SC_ZERO_TIME);
    if (phase == tlm::BEGIN_RESP) {
      EXPECT_EQ(payload.get_response_status(), tlm::TLM_OK_RESPONSE);
      begun.push_back(sc_core::sc_time_stamp());
      last = &payload;
      responded.notify(sc_time(100, sc_core::SC_NS));
    }
    return tlm::TLM_ACCEPTED;
  }
  void end_response() {
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_time delay = sc_core::SC_ZERO_TIME;
    tlm::tlm_generic_payload& payload = *last;
    socket->nb_transport_fw(payload, phase, delay);
    payload.release();
  }
  void free(tlm::tlm_generic_payload*) override { ++freed; }

  std::vector<std::unique_ptr<tlm::tlm_generic_payload>> payloads;
  unsigned char bytes[64] = {};
  sc_core::sc_event request_ended, responded;
  std::vector<sc_time> taken, begun;
  tlm::tlm_generic_payload* last = nullptr;
  int freed = 0;
};

const sc_time kUs(1, sc_core::SC_US), kGap(100, sc_core::SC_NS);

// An initiator at an agent at a slow DRAM.
template <class I>
struct Bench {
  explicit Bench(std::uint32_t outstanding) : agent("agent", context, dram, PortId(1), outstanding, "acme") {
    agent.connect(initiator.socket.get_base_port(), initiator.socket.get_base_export());
  }
  FreshContext fresh;
  SystemCContext context{"context"};
  SlowDram dram{context};
  I initiator{"initiator"};
  TlmAgent agent;
};

TEST(TlmAgent, a_response_waits_for_the_end_of_the_one_before) {
  Bench<Phases> bench(8);
  sc_core::sc_start();
  EXPECT_EQ(bench.initiator.begun, (std::vector{kUs, kUs + kGap, kUs + 2 * kGap}));
  EXPECT_EQ(bench.initiator.freed, 3);
  ASSERT_EQ(bench.dram.requests.size(), 3u);
  EXPECT_EQ(bench.dram.requests[2].address, 2 * 4096u);
  EXPECT_EQ(bench.dram.requests[2].written, 64u);
  EXPECT_EQ(bench.agent.bytes_moved(Picoseconds(0), bench.context.now()), 192);
}

TEST(TlmAgent, a_request_is_taken_when_memory_has_room_for_it) {
  Bench<Phases> bench(1);
  sc_core::sc_start();
  EXPECT_EQ(bench.initiator.taken, (std::vector{sc_core::SC_ZERO_TIME, kUs, 2 * kUs}));
}

struct Caller final : sc_core::sc_module {
  tlm_utils::simple_initiator_socket<Caller> socket;
  explicit Caller(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    SC_HAS_PROCESS(Caller);
    SC_THREAD(call);
    SC_THREAD(call_too);
  }
  void call_too() { call(); }
  void call() {
    tlm::tlm_generic_payload payload;
    unsigned char bytes[64];
    payload.set_read();
    payload.set_data_ptr(bytes);
    payload.set_data_length(length);
    sc_time delay = kGap;  // ahead of the kernel
    socket->b_transport(payload, delay);
    ends.push_back(sc_core::sc_time_stamp() + delay);
    status = payload.get_response_status();
  }
  unsigned length = 64;
  std::vector<sc_time> ends;
  tlm::tlm_response_status status{};
};

TEST(TlmAgent, calls_that_block_end_when_their_bytes_have_moved) {
  Bench<Caller> bench(1);
  sc_core::sc_start();
  EXPECT_EQ(bench.initiator.ends, (std::vector{kGap + kUs, kGap + 2 * kUs}));
  EXPECT_EQ(bench.initiator.status, tlm::TLM_OK_RESPONSE);
}

TEST(TlmAgent, a_request_without_bytes_is_answered_with_an_error) {
  Bench<Caller> bench(1);
  bench.initiator.length = 0;
  sc_core::sc_start();
  EXPECT_EQ(bench.initiator.status, tlm::TLM_BURST_ERROR_RESPONSE);
  EXPECT_TRUE(bench.dram.requests.empty());
}

// Breaks the protocol: no memory manager, or the end of a response that never began.
struct Careless final : sc_core::sc_module {
  tlm_utils::simple_initiator_socket<Careless> socket;
  explicit Careless(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    SC_HAS_PROCESS(Careless);
    SC_THREAD(send);
  }
  void send() {
    tlm::tlm_generic_payload payload;
    payload.set_read();
    payload.set_data_length(64);
    sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(payload, phase, delay);
    wait(kUs);
  }
  tlm::tlm_phase phase;
};

std::string failure_of(const tlm::tlm_phase& phase) {
  Bench<Careless> bench(1);
  bench.initiator.phase = phase;
  try {
    sc_core::sc_start();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(none)";
}

TEST(TlmAgent, a_broken_protocol_is_a_message) {
  EXPECT_THAT(failure_of(tlm::BEGIN_REQ),
              HasSubstr("the TLM initiator \"acme\" sent a payload without a memory manager by nb_transport_fw()"));
  EXPECT_THAT(failure_of(tlm::END_RESP), HasSubstr("the TLM initiator \"acme\" sent END_RESP without a response to end"));
}

}  // namespace
}  // namespace vitro::hw
