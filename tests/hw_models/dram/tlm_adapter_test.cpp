#include <gtest/gtest.h>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/tlm_adapter.hpp"

namespace vitro::hw {
namespace {

// SystemC elaborates once per context: every test gets one of its own.
class FreshContext {
 public:
  FreshContext() : saved_(sc_core::sc_curr_simcontext), mine_(std::make_unique<sc_core::sc_simcontext>()) {
    sc_core::sc_curr_simcontext = mine_.get();
  }
  ~FreshContext() {
    mine_.reset();
    sc_core::sc_curr_simcontext = saved_;
  }

 private:
  sc_core::sc_simcontext* saved_;
  std::unique_ptr<sc_core::sc_simcontext> mine_;
};

std::unique_ptr<DramChannels> channels(Context& context) {
  const DramPart& part = dram_part("lpddr5_6400");
  return std::make_unique<DramChannels>(context, 1, part.timing, part.organisation, "mop4", ControllerPolicy{});
}

// Ends of three requests of one port: a read, a posted write, strided reads.
struct Traffic {
  Traffic(Context& on, DetailedDram& dram) : context(on) {
    const PortId port = dram.add_port({"a", {1e12}});
    dram.submit({port, 64 * KiB, 0, Picoseconds(0), 0}, [this] { ends[0] = context.now(); });
    dram.submit({port, 16 * KiB, 16 * KiB, Picoseconds(0), GiB}, [this] { ends[1] = context.now(); });
    dram.submit({port, 8 * KiB, 0, Picoseconds(0), 4096, 64, 4096}, [this] { ends[2] = context.now(); });
  }
  Context& context;
  std::array<Picoseconds, 3> ends{};
};

std::array<Picoseconds, 3> direct() {
  EventLoop loop;
  DetailedDram dram({loop, "dram"}, channels(loop), {});
  Traffic traffic(loop, dram);
  while (!loop.empty()) loop.step();
  return traffic.ends;
}

TEST(TlmAdapter, systemc_time_changes_nothing) {
  FreshContext fresh;
  SystemCContext context("context");
  DetailedDram dram({context, "dram"}, channels(context), {});
  Traffic traffic(context, dram);
  sc_core::sc_start();
  EXPECT_EQ(traffic.ends, direct());
}

TEST(TlmAdapter, our_dram_behind_a_socket_is_our_dram) {
  FreshContext fresh;
  SystemCContext context("context");
  const auto memory = channels(context);
  TlmDramTarget target("target", context, *memory);
  auto lines = std::make_unique<TlmLineMemory>("lines", context, memory->capacity());
  lines->socket.bind(target.socket);
  DetailedDram dram({context, "dram"}, std::move(lines), {});
  Traffic traffic(context, dram);
  sc_core::sc_start();
  const auto plain = direct();
  // The socket takes one line after another, so a full queue is met a command earlier or later: within a few percent.
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(to_seconds(traffic.ends[i]), to_seconds(plain[i]), 0.03 * to_seconds(plain[i])) << i;
  EXPECT_EQ(memory->counts().reads, 64 * KiB / 32 + 8 * KiB / 32);
  EXPECT_EQ(memory->counts().writes, 16 * KiB / 32);
}

// An initiator that answers BEGIN_RESP later, with END_RESP.
struct Initiator final : sc_core::sc_module {
  tlm_utils::simple_initiator_socket<Initiator> socket;
  explicit Initiator(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    SC_HAS_PROCESS(Initiator);
    socket.register_nb_transport_bw(this, &Initiator::backward);
    SC_METHOD(end_response);
    sensitive << responded;
    dont_initialize();
  }
  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time&) {
    if (phase == tlm::END_REQ) request_ended = sc_core::sc_time_stamp();
    if (phase == tlm::BEGIN_RESP) {
      begun.push_back(sc_core::sc_time_stamp());
      last = &payload;
      responded.notify(sc_core::sc_time(100, sc_core::SC_NS));
    }
    return tlm::TLM_ACCEPTED;
  }
  void end_response() {
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(*last, phase, delay);
  }
  sc_core::sc_event responded;
  sc_core::sc_time request_ended;
  std::vector<sc_core::sc_time> begun;
  tlm::tlm_generic_payload* last = nullptr;
};

TEST(TlmAdapter, a_response_waits_for_the_end_of_the_one_before) {
  FreshContext fresh;
  SystemCContext context("context");
  const auto memory = channels(context);
  TlmDramTarget target("target", context, *memory);
  Initiator initiator("initiator");
  initiator.socket.bind(target.socket);
  tlm::tlm_generic_payload payloads[2];
  std::array<unsigned char, 64> bytes{};
  for (int i = 0; i < 2; ++i) {
    payloads[i].set_command(tlm::TLM_READ_COMMAND);
    payloads[i].set_address(static_cast<std::uint64_t>(i) * 4096 + 16);  // 64 unaligned bytes: three lines
    payloads[i].set_data_ptr(bytes.data());
    payloads[i].set_data_length(64);
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    EXPECT_EQ(initiator.socket->nb_transport_fw(payloads[i], phase, delay), tlm::TLM_ACCEPTED);
  }
  sc_core::sc_start();
  ASSERT_EQ(initiator.begun.size(), 2u);
  EXPECT_EQ(payloads[0].get_response_status(), tlm::TLM_OK_RESPONSE);
  EXPECT_LT(initiator.request_ended, initiator.begun[0]);
  EXPECT_EQ(initiator.begun[1] - initiator.begun[0], sc_core::sc_time(100, sc_core::SC_NS));
  EXPECT_EQ(memory->counts().reads, 6u);
}

}  // namespace
}  // namespace vitro::hw
