// Activation buffers: one per tensor name, sized for the largest step, reused by every layer.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/graph/operator.hpp"
#include "engine/machine/memory.hpp"

namespace vitro {

struct BufferLimits {
  std::uint32_t rows = 1;     // of a step, or of a chunk of a prompt
  std::uint32_t span = 0;     // rows of a prompt that go through a layer together; 0: no more than `rows`
  std::uint32_t sampled = 1;  // rows whose logits are wanted
  std::uint32_t routed = 0;   // (row, expert) pairs
  std::uint32_t table_width = 1;
  std::uint32_t tables = 1;         // of blocks: one for all layers, or one each
  std::uint32_t staged_blocks = 0;  // of keys and values, for one unit; 0: it reads them as they are
};

class Buffers {
 public:
  // Leases everything at once, in the format `activations`; logits, which a softmax follows, attention's weights and means of squares
  // are f32. Throws
  // ConfigError when the budget is too small for it.
  Buffers(Memory& memory, const OperatorGraph& graph, const ModelConfig& config, const BufferLimits& limits, std::size_t units,
          Format activations = Format::f32);

  // Rows [first_row, first_row + rows) of a tensor. `copy`: which unit's copy of a replicated tensor.
  View view(const std::string& tensor, std::uint32_t first_row, std::uint32_t rows, std::size_t copy = 0) const;
  // Small operands that the policy itself writes between phases: "token_ids", "block_table", "staged_table", "staged_sources",
  // "sampled_rows", "uniforms", "expert_rows", "expert_sources", "expert_weights".
  template <class T>
  T* host_data(const std::string& tensor) const {
    return view(tensor, 0, 1).as<T>();
  }
  // Whether a layer takes the tensor from the one before it: it then has a row for each of a prompt that goes layer by layer.
  bool crosses_layers(const std::string& tensor) const { return buffers_.at(tensor).crosses; }
  std::uint32_t width(const std::string& tensor) const { return buffers_.at(tensor).width; }

 private:
  struct Buffer {
    Lease lease;
    std::uint32_t width = 0, rows = 0;
    std::size_t copies = 1;
    Format format = Format::f32;
    bool crosses = false;
  };
  void add(Memory& memory, const std::string& tensor, std::uint32_t width, std::uint32_t rows, std::size_t copies, Format format);

  std::unordered_map<std::string, Buffer> buffers_;
};

}  // namespace vitro
