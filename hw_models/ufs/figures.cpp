#include "hw_models/ufs/figures.hpp"

namespace vitro::hw {
namespace {

constexpr double kMB = 1e6, kGB = 1e9;

double bandwidth(const Node& storage, const StorageProbe& probe) { return run(storage, probe).bytes_per_second; }

double one_at_a_time(const Node& storage, bool sequential, Bytes block) {
  return bandwidth(storage, {sequential, false, block, sequential ? GiB : 128 * MiB, 1, {kBigCore}, 100, 2000});
}

double random_4k(const Node& storage, Bytes range, std::vector<Hertz> cores) {
  return bandwidth(storage, {false, false, 4 * KiB, range, 32, std::move(cores), 5000, 20000});
}

// The worst of several cores against the big core alone.
double loss_with_several_cores(const Node& storage) {
  const double alone = random_4k(storage, 128 * MiB, {kBigCore});
  double worst = alone;
  for (const std::vector<Hertz>& cores : {std::vector{kBigCore, kMidCore},
                                          {kBigCore, kMidCore, kMidCore, kMidCore},
                                          {kBigCore, kMidCore, kMidCore, kMidCore, kMidCore, kMidCore, kLittleCore, kLittleCore}}) {
    worst = std::min(worst, random_4k(storage, 128 * MiB, cores));
  }
  return (1 - worst / alone) * 100;
}

constexpr StorageFigure kUfs4[] = {
    {"pi2_ufs4_seq_read_4kb", "MB/s", [](const Node& s) { return one_at_a_time(s, true, 4 * KiB) / kMB; }},
    {"pi2_ufs4_seq_read_512kb", "GB/s", [](const Node& s) { return one_at_a_time(s, true, 512 * KiB) / kGB; }},
    {"pi2_ufs4_rand_read_512kb", "GB/s", [](const Node& s) { return one_at_a_time(s, false, 512 * KiB) / kGB; }},
    {"pi2_ufs4_rand_4kb_range_128mb", "GB/s", [](const Node& s) { return random_4k(s, 128 * MiB, {kMidCore}) / kGB; }},
    {"pi2_ufs4_rand_4kb_range_512mb", "MB/s", [](const Node& s) { return random_4k(s, 512 * MiB, {kBigCore}) / kMB; }},
    {"pi2_ufs_rand4k_big_core", "MB/s", [](const Node& s) { return random_4k(s, 128 * MiB, {kBigCore}) / kMB; }},
    {"pi2_ufs_rand4k_mid_core", "MB/s", [](const Node& s) { return random_4k(s, 128 * MiB, {kMidCore}) / kMB; }},
    {"pi2_ufs_rand4k_little_core", "MB/s", [](const Node& s) { return random_4k(s, 128 * MiB, {kLittleCore}) / kMB; }},
    {"pi2_ufs_multicore_io_degradation", "%", loss_with_several_cores},
};

constexpr StorageFigure kNvme[] = {
    {"pi2_nvme_seq_read_intro", "GB/s",
     [](const Node& s) { return bandwidth(s, {true, false, 512 * KiB, 4 * GiB, 8, {{5e9}}, 200, 2000}) / kGB; }},
    {"pi2_nvme_rand_iops_intro", "K IOPS",
     [](const Node& s) {
       return run(s, {false, false, 4 * KiB, 4 * GiB, 32, {{5e9}, {5e9}, {5e9}, {5e9}}, 10000, 100000}).commands_per_second / 1e3;
     }},
};

}  // namespace

std::span<const StorageFigure> ufs4_figures() { return kUfs4; }
std::span<const StorageFigure> nvme_figures() { return kNvme; }

}  // namespace vitro::hw
