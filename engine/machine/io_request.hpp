// What storage is asked for, and what it answers.
#pragma once
#include <cstdint>

#include "engine/base/status.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/tensor/lease.hpp"

namespace vitro {

enum class FileId : std::uint32_t {};

struct Extent {
  FileId file{};
  Bytes offset = 0, length = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class Pattern : std::uint8_t { sequential, random };

// A read that a core causes by touching a page of a mapping: it does nothing else until the data is there, or it has touched a mark of
// read-ahead and goes on.
enum class PageFault : std::uint8_t { none, waits, goes_on };

struct ReadRequest {
  Extent from;  // need not be aligned; storage reads the aligned cover and counts what it really reads
  Lease into;
  Bytes into_offset = 0;
  UnitId issuer{};  // the core that issues the command: issuing costs its time
  Pattern pattern = Pattern::random;
  PageFault page_fault = PageFault::none;
};

struct WriteRequest {
  Extent to;
  Lease from;
  Bytes from_offset = 0;
  UnitId issuer{};
};

struct IoResult {
  Status status;
  Bytes done = 0;  // less than asked only with a status that is not ok
};

}  // namespace vitro
