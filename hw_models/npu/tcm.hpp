// TcmAllocator: the NPU's own memory as the software that manages it sees it. First fit, neighbours coalesce when freed.
#pragma once
#include <map>
#include <optional>

#include "engine/base/units.hpp"

namespace vitro::hw {

class TcmAllocator {
 public:
  // Requires: capacity is a multiple of `alignment`.
  TcmAllocator(Bytes capacity, Bytes alignment);

  // Offset of a free block, aligned; nullopt when no gap is large enough. Requires: bytes > 0.
  std::optional<Bytes> allocate(Bytes bytes);
  void free(Bytes offset);  // Requires: from allocate(), not freed yet

  Bytes capacity() const { return capacity_; }
  Bytes used() const { return used_; }
  Bytes largest_gap() const;

 private:
  Bytes capacity_, alignment_, used_ = 0;
  std::map<Bytes, Bytes> gaps_, blocks_;  // offset to length; no two gaps touch
};

}  // namespace vitro::hw
