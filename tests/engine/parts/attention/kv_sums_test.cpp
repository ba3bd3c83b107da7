// Checksums of keys and values in flash: each bit that comes back otherwise is found, and what storage does once only is mended.
#include "engine/parts/attention/kv_sums.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/rng.hpp"
#include "engine/machine/detached.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/task.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

class DoesNothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// Flash whose next `lies` reads bring one bit that is wrong.
class LyingStorage final : public StorageDecorator {
 public:
  using StorageDecorator::StorageDecorator;
  int lies = 0;
  Bytes wrong = 0;  // byte of what is read

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { lie(request, &done); }

 private:
  Detached lie(ReadRequest request, Completion<IoResult>* done) {
    ReadRequest submitted = request;
    IoResult result = co_await inner_.read(std::move(submitted));
    if (lies > 0) {
      --lies;
      request.into.data()[request.into_offset + wrong] ^= std::byte{4};
    }
    done->complete(std::move(result));
  }
};

constexpr Bytes kUnit = 2 * kPageSize;
constexpr std::uint64_t kUnits = 6;

struct Bench {
  explicit Bench(bool phantom = false) : host(spec_of(phantom), function, trace), storage(host.machine().storage) {
    file = storage.create_scratch(kUnits * kUnit).value_or_throw();
    memory = host.machine().memory.lease(kUnits * kUnit, Placement::dram, Region::kv).value_or_throw();
    Rng rng(3);
    for (Bytes i = 0; i < kUnits * kUnit && !phantom; ++i) memory.data()[i] = static_cast<std::byte>(rng.next());
    sums.emplace(host.machine(), kUnits, kUnit);
  }
  static VirtualMachineSpec spec_of(bool phantom) {
    VirtualMachineSpec spec;
    spec.phantom = phantom;
    return spec;
  }
  static Task<void> write_all(Bench* b) {
    WriteRequest request;
    request.to = {b->file, 0, kUnits * kUnit};
    request.from = b->memory;
    b->sums->take(request);
    (co_await b->storage.write(std::move(request))).status.or_throw();
  }
  static Task<void> read_some(Bench* b, ReadRequest request, CheckedRead* read) {
    *read = co_await read_checked(&b->storage, std::move(request), b->sums ? &*b->sums : nullptr);
  }
  CheckedRead read(std::uint64_t first, std::uint64_t count) {
    ReadRequest request;
    request.from = {file, first * kUnit, count * kUnit};
    request.into = memory;
    request.into_offset = first * kUnit;
    CheckedRead read;
    host.run(read_some(this, std::move(request), &read));
    return read;
  }

  DoesNothing function;
  NullTrace trace;
  VirtualMachine host;
  LyingStorage storage;
  FileId file{};
  Lease memory;
  std::optional<KvSums> sums;
};

TEST(KvSums, find_a_wrong_bit_in_whichever_unit_it_is) {
  Bench bench;
  bench.host.run(Bench::write_all(&bench));
  for (std::uint64_t unit = 0; unit < 4; ++unit) {
    for (const Bytes byte : {Bytes{0}, Bytes{77}, kPageSize, kUnit - 1}) {
      bench.storage.lies = 2;
      bench.storage.wrong = unit * kUnit + byte;
      const CheckedRead read = bench.read(2, 4);
      EXPECT_EQ(read.damage, std::optional<Bytes>((2 + unit) * kUnit));
      EXPECT_EQ(read.attempts, 2u);
    }
  }
}

TEST(KvSums, what_is_wrong_once_is_read_again) {
  Bench bench;
  bench.host.run(Bench::write_all(&bench));
  bench.storage.lies = 1;
  CheckedRead read = bench.read(0, 3);
  EXPECT_EQ(read.damage, std::nullopt);
  EXPECT_EQ(read.attempts, 2u);
  EXPECT_EQ(bench.sums->verified(), 6 * kUnit);
  read = bench.read(0, 3);
  EXPECT_EQ(read.attempts, 1u);
  bench.sums.reset();
  bench.storage.lies = 1;
  read = bench.read(0, 3);
  EXPECT_EQ(read.damage, std::nullopt) << "without sums nobody knows";
  EXPECT_EQ(read.attempts, 1u);
}

TEST(KvSums, are_charged_to_the_budget_and_of_a_phantom_run_there_are_none_to_hold) {
  Bench bench(true);
  const Budget& dram = bench.host.machine().memory.budget(Placement::dram);
  EXPECT_EQ(dram.region_used[static_cast<std::size_t>(Region::kv)], kUnits * kUnit + KvSums::bytes(kUnits));
  EXPECT_EQ(KvSums::bytes(kUnits), kPageSize);
  EXPECT_EQ(KvSums::bytes(kPageSize / 8 + 1), 2 * kPageSize);
  bench.host.run(Bench::write_all(&bench));
  EXPECT_EQ(bench.read(0, 3).damage, std::nullopt);
}

TEST(KvSums, without_room_for_them_say_so) {
  VirtualMachineSpec spec;
  spec.memory_limits = {kPageSize, 0, 0, 0};
  DoesNothing function;
  NullTrace trace;
  VirtualMachine host(spec, function, trace);
  EXPECT_THROW(KvSums(host.machine(), kPageSize, kUnit), ConfigError);
}

}  // namespace
}  // namespace vitro
