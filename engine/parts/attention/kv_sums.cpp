#include "engine/parts/attention/kv_sums.hpp"

#include "engine/base/checksum.hpp"
#include "engine/base/status.hpp"

namespace vitro {

KvSums::KvSums(Machine& machine, std::uint64_t units, Bytes unit) : clock_(machine.clock), unit_(unit) {
  VITRO_CHECK(unit > 0 && unit % kPageSize == 0, "a unit is whole pages");
  Result<Lease> lease = machine.memory.lease(bytes(units), Placement::dram, Region::kv);
  if (!lease.ok()) throw ConfigError("memory.budget: checksums of keys and values in flash: " + lease.status().message);
  lease_ = std::move(lease).value();
}

void KvSums::take(const WriteRequest& request) {
  charge(request.to.length);
  if (request.from.data() == nullptr) return;
  const std::byte* from = request.from.data() + request.from_offset;
  for (Bytes at = 0; at < request.to.length; at += unit_) sums()[(request.to.offset + at) / unit_] = checksum({from + at, unit_});
}

std::optional<Bytes> KvSums::damage_in(const ReadRequest& request) {
  charge(request.from.length);
  verified_ += request.from.length;
  if (request.into.data() == nullptr) return std::nullopt;
  const std::byte* into = request.into.data() + request.into_offset;
  for (Bytes at = 0; at < request.from.length; at += unit_) {
    const Bytes offset = request.from.offset + at;
    if (checksum({into + at, unit_}) != sums()[offset / unit_]) return offset;
  }
  return std::nullopt;
}

Task<CheckedRead> read_checked(Storage* storage, ReadRequest request, KvSums* sums) {
  CheckedRead read;
  while (read.attempts < 2) {
    ReadRequest submitted = request;
    ++read.attempts;
    read.result = co_await storage->read(std::move(submitted));
    if (!read.result.status.ok() || sums == nullptr) break;
    read.damage = sums->damage_in(request);
    if (!read.damage) break;
  }
  co_return read;
}

}  // namespace vitro
