#include "engine/base/aligned.hpp"
#include "engine/kernels/cpu/ops.hpp"

namespace vitro::cpu {

std::byte* scratch_bytes(Scratch slot, std::size_t bytes) {
  thread_local AlignedArray<std::byte> buffers[6];
  AlignedArray<std::byte>& buffer = buffers[static_cast<std::size_t>(slot)];
  if (buffer.size() < bytes) buffer = AlignedArray<std::byte>(bytes + bytes / 2);
  return buffer.data();
}

}  // namespace vitro::cpu
