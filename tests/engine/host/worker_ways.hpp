// The ways to a worker that there are on this machine: as a program of qemu-hexagon, and as a phone's module behind the library that
// stands in for FastRPC's (fastrpc_double.cpp).
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "engine/host/hexagon_fastrpc.hpp"
#include "engine/host/hexagon_qemu.hpp"
#include "tests/engine/host/fastrpc_double.hpp"

namespace vitro::test {

enum class Way { qemu, fastrpc };

// Functions of the double, where it was built: not for static programs, which load no libraries.
class FastrpcDouble {
 public:
#ifdef VITRO_FASTRPC_DOUBLE
  static const char* path() { return VITRO_FASTRPC_DOUBLE; }
  bool usable() const { return library_ != nullptr && have_qemu_hexagon(); }
#else
  static const char* path() { return ""; }
  bool usable() const { return false; }
#endif
  int process(const void* region) const { return find<decltype(&vitro_double_process)>("vitro_double_process")(region); }
  void fail(const char* function, int error, int calls_before = 0) const {
    find<decltype(&vitro_double_fail)>("vitro_double_fail")(function, error, calls_before);
  }
  void return_early(int error) const { find<decltype(&vitro_double_return_early)>("vitro_double_return_early")(error); }
  void release() const { find<decltype(&vitro_double_release)>("vitro_double_release")(); }
  DoubleState state() const { return find<decltype(&vitro_double_state)>("vitro_double_state")(); }

 private:
  template <class F>
  F find([[maybe_unused]] const char* name) const {
#ifdef VITRO_FASTRPC_DOUBLE
    return reinterpret_cast<F>(::dlsym(library_, name));
#else
    VITRO_CHECK(false, "a function of a library that this build has not");
    return nullptr;
#endif
  }
#ifdef VITRO_FASTRPC_DOUBLE
  void* const library_ = ::dlopen(VITRO_FASTRPC_DOUBLE, RTLD_NOW | RTLD_LOCAL);
#endif
};

// The transport, and which process it is that stands for the DSP's: tests kill and stop it.
class WorkerBehindFastrpc final : public HexagonTransport {
 public:
  explicit WorkerBehindFastrpc(const FastrpcHexagonOptions& options) : inner_(make_fastrpc_hexagon(options)) {}

  std::string name() const override { return inner_->name(); }
  std::span<std::byte> inbound() override { return inner_->inbound(); }
  std::span<std::byte> outbound() override { return inner_->outbound(); }
  // Invocations begin on a thread of their own: until its process is there.
  Status start() override {
    Status status = inner_->start();
    do {
      process_ = double_.process(inner_->inbound().data());
    } while (status.ok() && process_ < 0 && inner_->alive());
    return status;
  }
  bool alive() override { return inner_->alive(); }
  std::string exit_reason() override { return inner_->exit_reason(); }
  int process() const override {
    VITRO_CHECK(process_ > 0, "a worker that never was");  // a signal to the process -1 reaches everybody
    return process_;
  }
  void stop() override { inner_->stop(); }
  void clean(const void* begin, Bytes length) override { inner_->clean(begin, length); }
  void invalidate(const void* begin, Bytes length) override { inner_->invalidate(begin, length); }

 private:
  const FastrpcDouble double_{};
  const std::unique_ptr<HexagonTransport> inner_;
  int process_ = -1;
};

inline std::unique_ptr<HexagonTransport> make_worker(Way way, Bytes inbound, Bytes outbound, bool matrix_unit = true) {
  if (way == Way::qemu) return make_qemu_hexagon({{}, {}, inbound, outbound, matrix_unit});
  return std::make_unique<WorkerBehindFastrpc>(FastrpcHexagonOptions{FastrpcDouble::path(), inbound, outbound});
}

inline bool have_way(Way way) { return way == Way::qemu ? have_qemu_hexagon() : FastrpcDouble().usable(); }

inline std::string name_of(Way way) { return way == Way::qemu ? "qemu" : "fastrpc"; }
inline std::ostream& operator<<(std::ostream& out, Way way) { return out << name_of(way); }

}  // namespace vitro::test

#define VITRO_NEEDS_WAY(way) \
  if (!have_way(way)) GTEST_SKIP() << "needs clang-19, lld-19 and qemu-hexagon"
