// Checksums of keys and values in a file, kept in DRAM: what comes back is what was written, or the run ends.
#pragma once
#include <optional>

#include "engine/machine/machine.hpp"

namespace vitro {

// A sum for each unit of a file that is written and read in whole units (a slice, or a block, of keys and values). Whoever reads holds the
// bytes against them before anything computes with them; of a read that brought others one more attempt may be made, as of every read that
// is checked (engine/faults/checked_storage.hpp). The core that runs the policy pays for reading all bytes once more
// (PolicyWork::checksum).
// A phantom run has no bytes to look at, and pays.
class KvSums {
 public:
  // unit: bytes, in whole pages. Takes bytes() of DRAM. Throws ConfigError where they do not fit.
  KvSums(Machine& machine, std::uint64_t units, Bytes unit);
  static Bytes bytes(std::uint64_t units) { return round_up(units * sizeof(std::uint64_t), kPageSize); }

  // Before a write. Requires: the extent begins and ends with a unit; so below.
  void take(const WriteRequest& request);
  // After a read that went well: the offset in the file of the first unit that is not what was written to it; none: all are. Requires: all
  // were written.
  std::optional<Bytes> damage_in(const ReadRequest& request);

  Bytes verified() const { return verified_; }
  Bytes unit() const { return unit_; }

 private:
  std::uint64_t* sums() const { return reinterpret_cast<std::uint64_t*>(lease_.data()); }
  void charge(Bytes length) { clock_.charge(PolicyWork::checksum, static_cast<std::uint32_t>(length / kPageSize)); }

  Clock& clock_;
  Bytes unit_;
  Lease lease_;
  Bytes verified_ = 0;
};

// Reads, holds what came against the sums (null: nothing is checked), and reads once more where it differs. `damage`: where it still does.
struct CheckedRead {
  IoResult result;
  std::optional<Bytes> damage;
  std::uint32_t attempts = 0;
};
Task<CheckedRead> read_checked(Storage* storage, ReadRequest request, KvSums* sums);

}  // namespace vitro
