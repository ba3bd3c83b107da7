// The worker behind FastRPC: what is missing is named, what fails is undone, and whatever becomes of an invocation, no process and no
// session of it stays.
#include "engine/host/hexagon_fastrpc.hpp"

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "engine/host/fastrpc_api.hpp"
#include "engine/host/hexagon_session.hpp"
#include "tests/engine/host/hexagon_faults.hpp"
#include "tests/engine/host/worker_ways.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

#ifndef VITRO_FASTRPC_OLD
#define VITRO_FASTRPC_OLD ""
#endif

namespace vitro::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int kUnableToLoad = static_cast<int>(0x80000406), kBadState = static_cast<int>(0x8000040d);

std::string message_of(const std::string& library) {
  try {
    make_fastrpc_hexagon({library, MiB, MiB});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FastrpcLibrary, that_is_not_there_is_named) {
  EXPECT_THAT(message_of("/nowhere/libcdsprpc.so"), testing::AllOf(HasSubstr("/nowhere/libcdsprpc.so can not be loaded"),
                                                                   HasSubstr("in the environment as VITRO_FASTRPC")));
  std::string why;
  ::setenv("VITRO_FASTRPC", "/elsewhere/libcdsprpc.so", 1);
  EXPECT_FALSE(have_fastrpc(why));
  EXPECT_THAT(why, HasSubstr("/elsewhere/libcdsprpc.so"));
  ::unsetenv("VITRO_FASTRPC");
}

TEST(FastrpcLibrary, errors_have_their_numbers) {
  EXPECT_THAT(fastrpc::error_text(kUnableToLoad), HasSubstr("error 0x80000406"));
  EXPECT_EQ(fastrpc::error_text(0x123), "error 0x123");
}

class HexagonFastrpc : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_way(Way::fastrpc)) GTEST_SKIP() << "needs clang-19, lld-19 and qemu-hexagon";
    before_ = double_.state();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    const DoubleState now = double_.state();
    EXPECT_EQ(now.misuses, before_.misuses);
    EXPECT_EQ(now.buffers, before_.buffers);
    EXPECT_EQ(now.sessions, before_.sessions);
    EXPECT_EQ(now.processes, before_.processes);
  }

  static FastrpcHexagonOptions options() { return {FastrpcDouble::path(), 4 * MiB, MiB}; }
  std::unique_ptr<HexagonSession> session() {
    return std::make_unique<HexagonSession>(std::make_unique<WorkerBehindFastrpc>(options()));
  }
  int kills() const { return double_.state().kills - before_.kills; }

  // A request whose result is its input; false when there was no answer.
  static bool copy(HexagonSession& session, std::uint32_t word) {
    std::vector<std::uint32_t> data(256, word);
    session.clear_scratch();
    hexagon::Operator op = hexagon_op(hexagon::Kind::copy, 2048);
    op.in[0] = session.scratch(1024).value_or_throw();
    op.out_bytes = 1024;
    std::memcpy(session.at(op.in[0]), data.data(), 1024);
    const auto answer = session.run({op});
    if (answer.ok()) {
      EXPECT_EQ(answer.value()[0], data);
    }
    return answer.ok();
  }

  // What a session writes before it starts a worker.
  static hexagon::Request& prepare(HexagonTransport& transport) {
    auto& request = *reinterpret_cast<hexagon::Request*>(transport.inbound().data());
    request.magic = hexagon::kMagic;
    request.version = hexagon::kVersion;
    request.inbound_bytes = static_cast<std::uint32_t>(transport.inbound().size());
    request.outbound_bytes = static_cast<std::uint32_t>(transport.outbound().size());
    return request;
  }
  static bool ready(HexagonTransport& transport) {
    const auto& response = *reinterpret_cast<const hexagon::Response*>(transport.outbound().data());
    while (response.ready != hexagon::kMagic && transport.alive()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return response.ready == hexagon::kMagic;
  }

  const FastrpcDouble double_{};
  DoubleState before_{};
};

TEST_F(HexagonFastrpc, a_library_that_lacks_a_function_is_named_with_it) {
  EXPECT_THAT(message_of(VITRO_FASTRPC_OLD), testing::AllOf(HasSubstr(VITRO_FASTRPC_OLD), HasSubstr("has no fastrpc_munmap (")));
}

TEST_F(HexagonFastrpc, the_environment_names_the_library) {
  ::setenv("VITRO_FASTRPC", FastrpcDouble::path(), 1);
  std::string why;
  EXPECT_TRUE(have_fastrpc(why)) << why;
  EXPECT_EQ(make_fastrpc_hexagon({"", MiB, MiB})->name(), std::string("FastRPC (") + FastrpcDouble::path() + ")");
  ::unsetenv("VITRO_FASTRPC");
}

TEST_F(HexagonFastrpc, a_step_of_the_start_that_fails_is_named_and_undone) {
  struct Step {
    const char* function;
    int calls_before;
    const char* said;
  };
  const std::string module = "remote_handle64_open of file:///libvitro_hexagon_skel.so?vitro_hexagon_skel_handle_invoke&_modver=1.0";
  for (const Step& step : {Step{"FASTRPC_GET_URI", 0, "the name of the module in a new session"},
                           {"DSPRPC_CONTROL_UNSIGNED_MODULE", 0, "a process for modules that are not signed"},
                           {"remote_handle64_open", 0, "&_dom=cdsp&_session=1"},
                           {"fastrpc_mmap", 0, "fastrpc_mmap of 4.00 MiB"},
                           {"fastrpc_mmap", 1, "fastrpc_mmap of 1.00 MiB"},
                           {"remote_handle64_invoke", 0, "ended before it was ready: its invocation returned"}}) {
    double_.release();
    double_.fail(step.function, kUnableToLoad, step.calls_before);
    const auto failed = session();
    EXPECT_FALSE(failed->usable()) << step.function;
    EXPECT_THAT(failed->notes(), Contains(testing::AllOf(HasSubstr(step.said), HasSubstr("error 0x80000406 (AEE_EUNABLETOLOAD)"))));
    if (std::string(step.function) == "remote_handle64_open") {
      EXPECT_THAT(failed->notes(), Contains(HasSubstr(module)));
    }
  }
  double_.release();
  EXPECT_TRUE(copy(*session(), 5));
}

TEST_F(HexagonFastrpc, without_memory_to_share_there_is_no_transport) {
  for (const char* function : {"rpcmem_alloc", "rpcmem_to_fd"}) {
    double_.fail(function, -1, 1);  // of the second region
    try {
      make_fastrpc_hexagon(options());
      ADD_FAILURE() << function;
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("no memory of 1.00 MiB to share with the DSP (") + function));
    }
  }
}

TEST_F(HexagonFastrpc, a_second_session_that_there_is_no_memory_for_is_one_that_is_full) {
  HexagonSessions sessions([] { return make_fastrpc_hexagon(options()); }, {}, 2);
  ASSERT_TRUE(sessions.take(3 * MiB).ok());
  double_.fail("rpcmem_alloc", -1, 0);
  const Status full = sessions.take(3 * MiB).status();
  EXPECT_EQ(full.code, Code::over_budget);
  EXPECT_THAT(full.message, HasSubstr("rpcmem_alloc failed"));
  EXPECT_EQ(sessions.size(), 1u);
  double_.release();
  EXPECT_TRUE(sessions.take(3 * MiB).ok());
  EXPECT_EQ(sessions.size(), 2u);
}

TEST_F(HexagonFastrpc, a_library_of_one_session_serves_one) {
  double_.fail("FASTRPC_RESERVE_NEW_SESSION", kUnableToLoad);
  const auto first = session();
  EXPECT_TRUE(copy(*first, 1));
  double_.fail("FASTRPC_RESERVE_NEW_SESSION", kUnableToLoad);
  const auto second = session();  // the first has begun: its process can not be made another
  EXPECT_FALSE(second->usable());
  EXPECT_THAT(second->notes(), Contains(HasSubstr("modules that are not signed")));
}

TEST_F(HexagonFastrpc, sessions_have_processes_of_their_own) {
  const auto first = session(), second = session();
  EXPECT_TRUE(copy(*first, 1) && copy(*second, 2));
  EXPECT_NE(first->transport().process(), second->transport().process());
  EXPECT_EQ(double_.state().sessions, before_.sessions + 2);
  ::kill(first->transport().process(), SIGKILL);
  EXPECT_TRUE(copy(*second, 3) && copy(*first, 4));
  EXPECT_EQ(second->notes().size(), 0u);
  EXPECT_THAT(first->notes(), Contains(HasSubstr("the worker died: its invocation returned error 0x68 (AEE_ECONNRESET)")));
}

// The error comes while the process on the DSP is there, and may write: it has to end before anybody trusts the regions again.
TEST_F(HexagonFastrpc, an_invocation_that_returns_an_error_costs_a_restart_and_then_the_worker) {
  const auto one = session();
  EXPECT_TRUE(copy(*one, 1));
  const int first = one->transport().process();
  const auto return_within_a_request = [&] {
    stop_process(one->transport().process());
    double_.return_early(kBadState);
  };
  return_within_a_request();
  EXPECT_TRUE(copy(*one, 2));
  EXPECT_NE(one->transport().process(), first);
  EXPECT_EQ(::kill(first, 0), -1);
  EXPECT_THAT(one->notes(), Contains(HasSubstr("its invocation returned error 0x8000040d (AEE_EBADSTATE)")));
  return_within_a_request();
  EXPECT_FALSE(copy(*one, 3));
  EXPECT_FALSE(one->usable());
  EXPECT_EQ(double_.state().processes, before_.processes);
}

// 1: what the regions hold is no request of this program's version.
TEST_F(HexagonFastrpc, a_worker_refuses_regions_that_it_does_not_know) {
  const auto transport = make_fastrpc_hexagon(options());
  prepare(*transport).version = hexagon::kVersion + 1;
  ASSERT_TRUE(transport->start().ok());
  EXPECT_FALSE(ready(*transport));
  EXPECT_THAT(transport->exit_reason(), HasSubstr("error 0x80000404 (AEE_EVERSIONNOTSUPPORT)"));
  transport->stop();
  EXPECT_EQ(transport->exit_reason(), "");
}

TEST_F(HexagonFastrpc, a_stop_is_a_word_in_the_mailbox_which_stays_as_it_was) {
  const auto transport = make_fastrpc_hexagon(options());
  hexagon::Request& request = prepare(*transport);
  for (int i = 0; i < 2; ++i) {
    reinterpret_cast<hexagon::Response*>(transport->outbound().data())->ready = 0;
    ASSERT_TRUE(transport->start().ok());
    EXPECT_TRUE(ready(*transport));
    EXPECT_TRUE(transport->alive());
    transport->stop();
    EXPECT_FALSE(transport->alive());
    EXPECT_EQ(request.stop, 0u);
    EXPECT_EQ(request.sequence, 0u);
    EXPECT_EQ(double_.state().sessions, before_.sessions);
  }
  EXPECT_EQ(kills(), 0);
}

TEST_F(HexagonFastrpc, a_worker_that_hangs_is_ended_by_force) {
  WorkerBehindFastrpc transport(options());
  prepare(transport);
  ASSERT_TRUE(transport.start().ok());
  EXPECT_TRUE(ready(transport));
  stop_process(transport.process());
  transport.stop();
  EXPECT_EQ(kills(), 1);
  EXPECT_EQ(double_.state().processes, before_.processes);
}

// A driver that does not let go: the regions are its until it does.
TEST_F(HexagonFastrpc, an_invocation_that_never_returns_keeps_its_regions) {
  int process = -1;
  {
    FastrpcHexagonOptions impatient = options();
    impatient.grace = impatient.patience = std::chrono::milliseconds(50);
    WorkerBehindFastrpc transport(impatient);
    prepare(transport);
    ASSERT_TRUE(transport.start().ok());
    EXPECT_TRUE(ready(transport));
    process = transport.process();
    stop_process(process);
    double_.fail("FASTRPC_REMOTE_PROCESS_KILL", kBadState);
    transport.stop();
    EXPECT_THAT(transport.start().message, HasSubstr("the last invocation never returned"));
  }
  EXPECT_EQ(double_.state().buffers, before_.buffers + 2);
  ::kill(process, SIGKILL);
  for (int i = 0; i < 2000 && double_.state().buffers != before_.buffers; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace vitro::test
