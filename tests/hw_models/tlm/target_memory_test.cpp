#include "hw_models/tlm/target_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tlm_utils/peq_with_cb_and_phase.h>
#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <optional>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/tlm/systemc_context.hpp"
#include "tests/hw_models/tlm/fresh_context.hpp"

namespace vitro::hw {
namespace {

using sc_core::sc_time;
using ::testing::HasSubstr;

const sc_time kLatency(100, sc_core::SC_NS);
constexpr Picoseconds kNs{1000};

enum class Style {
  blocks,          // b_transport() that waits
  annotates,       // b_transport() that returns a delay
  four_phases,     // END_REQ, BEGIN_RESP, both by nb_transport_bw()
  skips_end_req,   // BEGIN_RESP alone
  updates_end_req,   // END_REQ as the answer to BEGIN_REQ, after 10 ns
  updates_response,  // BEGIN_RESP as the answer
  completes,         // at once, with a delay
};

// Serves whatever comes, each after a latency of its own start: no bandwidth but that.
struct Target final : sc_core::sc_module {
  tlm_utils::simple_target_socket<Target> socket;
  Target(const sc_core::sc_module_name& name, Style how, tlm::tlm_response_status response = tlm::TLM_OK_RESPONSE)
      : sc_module(name), socket("socket"), style(how), status(response), events(this, &Target::phase_due) {
    socket.register_b_transport(this, &Target::b_transport);
    socket.register_nb_transport_fw(this, &Target::forward);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_time& delay) {
    most = std::max(most, ++inside);
    EXPECT_EQ(payload.get_data_length(), 64u);
    EXPECT_EQ(payload.get_address() % 64, 0u);
    if (style == Style::blocks) wait(kLatency);
    if (style == Style::annotates) delay += kLatency;
    payload.set_response_status(status);
    ++served;
    --inside;
  }
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_time& delay) {
    if (phase == tlm::END_RESP) {
      ++ended;
      return tlm::TLM_COMPLETED;
    }
    EXPECT_EQ(phase, tlm::BEGIN_REQ);
    most = std::max(most, ++inside);
    ++served;
    payload.set_response_status(status);
    delay += kLatency;
    if (style == Style::completes) return --inside, tlm::TLM_COMPLETED;
    if (style == Style::updates_response) {
      --inside;
      phase = tlm::BEGIN_RESP;
      return tlm::TLM_UPDATED;
    }
    events.notify(payload, tlm::BEGIN_RESP, delay);
    if (style == Style::four_phases) events.notify(payload, tlm::END_REQ, sc_time(10, sc_core::SC_NS));
    if (style != Style::updates_end_req) return tlm::TLM_ACCEPTED;
    phase = tlm::END_REQ;
    delay = sc_time(10, sc_core::SC_NS);
    return tlm::TLM_UPDATED;
  }
  void phase_due(tlm::tlm_generic_payload& payload, const tlm::tlm_phase& due) {
    tlm::tlm_phase phase = due;
    sc_time delay = sc_core::SC_ZERO_TIME;
    if (due == tlm::BEGIN_RESP) --inside;
    const tlm::tlm_sync_enum answer = socket->nb_transport_bw(payload, phase, delay);
    if (due == tlm::BEGIN_RESP && answer == tlm::TLM_UPDATED && phase == tlm::END_RESP) ++ended;
  }
  Style style;
  tlm::tlm_response_status status;
  tlm_utils::peq_with_cb_and_phase<Target> events;
  int inside = 0, most = 0, served = 0, ended = 0;
};

TlmTargetMemory::Limits limits(Style style, std::uint32_t outstanding) {
  return {GiB, 64, outstanding, 10'000 * kNs, style == Style::blocks || style == Style::annotates};
}

// A kilobyte is sixteen transactions. -> the whole nanosecond in which the last one is there
struct Read {
  explicit Read(Style style, std::uint32_t outstanding = 4, tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE)
      : context("context"), target("target", style, status) {
    auto memory = std::make_unique<TlmTargetMemory>("memory", context, limits(style, outstanding), "acme");
    memory->connect(target.socket.get_base_export(), target.socket.get_base_port());
    dram.emplace(Site{context, "dram"}, std::move(memory), DetailedDram::Limits{});
    port = dram->add_port({"a", {1e12}});
  }
  std::int64_t run() {
    dram->submit({port, KiB, 0, Picoseconds(0), 0}, [this] { end = context.now(); });
    sc_core::sc_start();
    return end / kNs;
  }
  FreshContext fresh;
  SystemCContext context;
  Target target;
  std::optional<DetailedDram> dram;
  PortId port{};
  Picoseconds end{-1};
};

TEST(TlmTargetMemory, loosely_timed_calls_overlap_as_far_as_may_be_outstanding) {
  EXPECT_EQ(Read(Style::blocks, 4).run(), 4 * 100);
  EXPECT_EQ(Read(Style::blocks, 16).run(), 100);
  EXPECT_EQ(Read(Style::annotates, 4).run(), 4 * 100);
  EXPECT_EQ(Read(Style::annotates, 1).run(), 16 * 100);
  Read read(Style::blocks, 4);
  read.run();
  EXPECT_EQ(read.target.most, 4);
  EXPECT_EQ(read.target.served, 16);
}

TEST(TlmTargetMemory, a_request_waits_for_the_end_of_the_one_before) {
  // The request phase takes 10 ns: 16 of them, and the latency of the last.
  EXPECT_EQ(Read(Style::four_phases, 16).run(), (15 * 10 + 100));
  EXPECT_EQ(Read(Style::updates_end_req, 16).run(), (15 * 10 + 100));
  EXPECT_EQ(Read(Style::four_phases, 4).run(), (3 * 100 + 3 * 10 + 100));  // the fourth of a round, three rounds later
}

TEST(TlmTargetMemory, a_target_may_shorten_the_protocol) {
  EXPECT_EQ(Read(Style::skips_end_req, 16).run(), 16 * 100);  // a response is the end of its request
  EXPECT_EQ(Read(Style::updates_response, 16).run(), 16 * 100);
  EXPECT_EQ(Read(Style::completes, 16).run(), 16 * 100);
}

TEST(TlmTargetMemory, every_response_that_has_a_phase_is_ended_once) {
  for (const Style style : {Style::four_phases, Style::skips_end_req, Style::updates_end_req, Style::updates_response}) {
    Read read(style);
    read.run();
    EXPECT_EQ(read.target.ended, 16);
  }
  Read read(Style::completes);
  read.run();
  EXPECT_EQ(read.target.ended, 0);
}

// SystemC loses the type of what a process throws, and keeps its text. The simulated machine keeps both.
std::string refusal(Read& read) {
  try {
    read.run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(none)";
}

TEST(TlmTargetMemory, an_error_response_ends_the_run_and_names_the_request) {
  for (const Style style : {Style::blocks, Style::four_phases, Style::completes}) {
    Read read(style, 4, tlm::TLM_GENERIC_ERROR_RESPONSE);
    EXPECT_THAT(refusal(read), HasSubstr("the TLM target \"acme\" answered a read of 64 bytes at 0x0, begun at 0.000 us, with "
                                         "TLM_GENERIC_ERROR_RESPONSE"));
  }
  Read read(Style::blocks, 4, tlm::TLM_INCOMPLETE_RESPONSE);
  EXPECT_THAT(refusal(read), HasSubstr("TLM_INCOMPLETE_RESPONSE: it did not set a response status"));
}

struct Silent final : sc_core::sc_module {
  tlm_utils::simple_target_socket<Silent> socket;
  explicit Silent(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    socket.register_b_transport(this, &Silent::b_transport);
    socket.register_nb_transport_fw(this, &Silent::forward);
    SC_HAS_PROCESS(Silent);
    SC_THREAD(tick);  // so that there is always something to do
  }
  void tick() {
    for (;;) wait(1, sc_core::SC_US);
  }
  void b_transport(tlm::tlm_generic_payload&, sc_time&) { wait(never); }
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload&, tlm::tlm_phase&, sc_time&) { return tlm::TLM_ACCEPTED; }
  sc_core::sc_event never;
};

TEST(TlmTargetMemory, a_target_that_never_answers_does_not_hang) {
  for (const Style style : {Style::blocks, Style::four_phases}) {
    FreshContext fresh;
    SystemCContext context("context");
    Silent target("target");
    auto memory = std::make_unique<TlmTargetMemory>("memory", context, limits(style, 4), "acme");
    memory->connect(target.socket.get_base_export(), target.socket.get_base_port());
    DetailedDram dram({context, "dram"}, std::move(memory), {});
    dram.submit({dram.add_port({"a", {1e12}}), KiB, KiB, Picoseconds(0), 128}, [] {});
    try {
      sc_core::sc_start();
      FAIL();
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("\"acme\" did not answer a write of 64 bytes at 0x80, begun at 0.000 us, within 10 us"));
    }
  }
}

// Answers each request twice.
struct Echo final : sc_core::sc_module {
  tlm_utils::simple_target_socket<Echo> socket;
  explicit Echo(const sc_core::sc_module_name& name) : sc_module(name), socket("socket"), events(this, &Echo::phase_due) {
    socket.register_nb_transport_fw(this, &Echo::forward);
  }
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase&, sc_time&) {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    events.notify(payload, tlm::BEGIN_RESP, kLatency);
    events.notify(payload, tlm::BEGIN_RESP, 2 * kLatency);
    return tlm::TLM_ACCEPTED;
  }
  void phase_due(tlm::tlm_generic_payload& payload, const tlm::tlm_phase& due) {
    tlm::tlm_phase phase = due;
    sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_bw(payload, phase, delay);
  }
  tlm_utils::peq_with_cb_and_phase<Echo> events;
};

// What a read of `bytes` fails with.
template <class T>
std::string failure_of(Style style, Bytes bytes = 64) {
  FreshContext fresh;
  SystemCContext context("context");
  T target("target");
  auto memory = std::make_unique<TlmTargetMemory>("memory", context, limits(style, 4), "acme");
  memory->connect(target.socket.get_base_export(), target.socket.get_base_port());
  DetailedDram dram({context, "dram"}, std::move(memory), {});
  dram.submit({dram.add_port({"a", {1e12}}), bytes, 0, Picoseconds(0), 0}, [] {});
  try {
    sc_core::sc_start();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(none)";
}

TEST(TlmTargetMemory, a_broken_protocol_is_a_message) {
  EXPECT_THAT(failure_of<Echo>(Style::four_phases),
              HasSubstr("\"acme\" sent BEGIN_RESP for a transaction that it has answered or never had"));
}

// Responds before it returns, and returns that the transaction is complete.
struct Hasty final : sc_core::sc_module {
  tlm_utils::simple_target_socket<Hasty> socket;
  explicit Hasty(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    socket.register_nb_transport_fw(this, &Hasty::forward);
  }
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase&, sc_time& delay) {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    socket->nb_transport_bw(payload, phase, delay);
    return tlm::TLM_COMPLETED;
  }
};

TEST(TlmTargetMemory, an_answer_by_phase_and_by_return_is_one_too_many) {
  EXPECT_THAT(failure_of<Hasty>(Style::four_phases),
              HasSubstr("\"acme\" answered a read of 64 bytes at 0x0, begun at 0.000 us, twice: by BEGIN_RESP and by what "
                        "nb_transport_fw() returned (expected TLM_ACCEPTED)"));
}

struct Mark final : tlm::tlm_extension<Mark> {
  Mark() { ++alive; }
  ~Mark() override { --alive; }
  tlm_extension_base* clone() const override { return new Mark; }
  void copy_from(const tlm_extension_base&) override {}
  static inline int alive = 0;
};

// Leaves an extension that is to go with the transaction, as simulators of DRAM do.
struct Marks final : sc_core::sc_module {
  tlm_utils::simple_target_socket<Marks> socket;
  explicit Marks(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
    socket.register_b_transport(this, &Marks::b_transport);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_time&) {
    EXPECT_EQ(payload.get_extension<Mark>(), nullptr) << "of an earlier transaction";
    payload.set_auto_extension(new Mark);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

TEST(TlmTargetMemory, extensions_of_a_target_go_with_their_transaction) {
  EXPECT_EQ(failure_of<Marks>(Style::annotates, KiB), "(none)");
  EXPECT_EQ(Mark::alive, 0);
}

TEST(TlmTargetMemory, addresses_are_whole_transactions_below_the_capacity) {
  FreshContext fresh;
  SystemCContext context("context");
  Target target("target", Style::annotates);  // checks them
  auto limited = limits(Style::annotates, 4);
  limited.capacity = 1000;
  auto memory = std::make_unique<TlmTargetMemory>("memory", context, limited, "acme");
  memory->connect(target.socket.get_base_export(), target.socket.get_base_port());
  EXPECT_EQ(memory->capacity(), 960u);
  DetailedDram dram({context, "dram"}, std::move(memory), {});
  dram.submit({dram.add_port({"a", {1e12}}), 100, 0, Picoseconds(0), 900 + 48}, [] {});
  sc_core::sc_start();
  EXPECT_EQ(target.served, 3);
}

}  // namespace
}  // namespace vitro::hw
