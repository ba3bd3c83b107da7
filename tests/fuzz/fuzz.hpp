// What the fuzz targets share. Only ConfigError and RunError may come out of a reader, and memory must stay in proportion to the input
// (budget.hpp).
#pragma once
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/check.hpp"
#include "tests/fuzz/budget.hpp"

namespace vitro::fuzz {

template <class Action>
void attempt(Action action) {
  try {
    action();
  } catch (const ConfigError&) {
  } catch (const RunError&) {}
}

// A file in memory, with one path for as long as the process lives.
class File {
 public:
  void hold(std::string_view bytes) {
    const bool written = ::ftruncate(file_, 0) == 0 && ::pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    VITRO_CHECK(written, "the input can not be written");
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_ = ::memfd_create("fuzz", 0);
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// Takes bytes from the front of an input, zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  std::string_view rest() const { return text_of(left_.data(), left_.size()); }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace vitro::fuzz
