// CallForm: what the work of a call follows from, but for how its rows lie. Clusters of neurons make thousands of calls per token, and few
// that are unlike.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "hw_models/compute.hpp"

namespace vitro::sim {

class CallForm {
 public:
  CallForm() = default;
  explicit CallForm(const KernelCall& call) {
    const int parameter = parameter_of(call);
    if (parameter < 0) return;
    std::uint64_t* next = words_.data();
    *next++ = pair(static_cast<std::uint32_t>(kind_of(call.op)) | static_cast<std::uint32_t>(call.method) << 8 |
                       static_cast<std::uint32_t>(call.variant) << 16,
                   static_cast<std::uint32_t>(parameter) | static_cast<std::uint32_t>(call.in.size()) << 8 | (call.rows ? 1u : 0u) << 16 |
                       (call.row_offsets ? 1u : 0u) << 17 | (call.quantised_before ? 1u : 0u) << 18);
    *next++ = pair(call.rows ? static_cast<std::uint32_t>(call.rows->size()) : 0,
                   call.batch ? static_cast<std::uint32_t>(call.batch->size()) : ~0u);
    *next++ = pair(call.slice.first, call.slice.count);
    for (const View& view : call.in) {
      if (!add(view, next)) return;
    }
    for (const View& view : call.out) {
      if (!add(view, next)) return;
    }
    size_ = static_cast<std::size_t>(next - words_.data());
  }
  // False for calls whose work follows from more, such as positions, or has operands in a unit's own memory.
  explicit operator bool() const { return size_ > 0; }

  // Of the call and its first operand: rows are what forms mostly differ in.
  std::uint64_t hash() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kOfCall + kOfView; ++i) sum = (std::rotl(sum, 9) ^ words_[i]) * 0x9e3779b97f4a7c15ull;
    return sum;
  }
  bool operator==(const CallForm& other) const {
    return size_ == other.size_ && std::memcmp(words_.data(), other.words_.data(), size_ * sizeof(std::uint64_t)) == 0;
  }

 private:
  static std::uint64_t pair(std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; }

  // Of the operators of neurons; -1: of others.
  static int parameter_of(const KernelCall& call) {
    if (call.is<ops::Matmul>()) return call.get<ops::Matmul>().precomputed ? 1 : 0;
    if (call.is<ops::Accumulate>()) return call.get<ops::Accumulate>().continues ? 1 : 0;
    if (call.is<ops::Glu>()) return static_cast<int>(call.get<ops::Glu>().activation);
    if (call.is<ops::Copy>()) return 0;
    if (!call.is<ops::Select>()) return -1;
    const std::optional<Activation>& activation = call.get<ops::Select>().activation;
    return activation ? 1 + static_cast<int>(*activation) : 0;
  }

  static bool add(const View& view, std::uint64_t*& next) {
    const Block* const block = view.memory.block();
    if (block == nullptr || block->placement == Placement::npu_tcm) return false;
    *next++ = pair(view.shape[0], view.shape[1]);
    *next++ = pair(view.shape[2], static_cast<std::uint32_t>(view.layout) | static_cast<std::uint32_t>(block->placement) << 8 |
                                      static_cast<std::uint32_t>(block->region) << 16);
    *next++ = std::bit_cast<std::uint64_t>(view.format);
    return true;
  }

  static constexpr std::size_t kOfCall = 3, kOfView = 3;
  std::size_t size_ = 0;
  std::array<std::uint64_t, kOfCall + 5 * kOfView> words_;  // four inputs and an output
};

// Works by form. Bounded: a form whose place another one takes is forgotten.
class KnownWorks {
 public:
  struct Known {
    CallForm form;
    hw::Work work;
  };
  // Where the form is, or may be put.
  Known& at(const CallForm& form) {
    if (known_.empty()) known_.resize(kForms);
    return known_[form.hash() >> (64 - kBits)];
  }

 private:
  static constexpr int kBits = 10;
  static constexpr std::size_t kForms = std::size_t{1} << kBits;
  std::vector<Known> known_;
};

}  // namespace vitro::sim
