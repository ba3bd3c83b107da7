// What a model's operator graph is wanted as.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace vitro {

// What passes make of the graph that a model is built as, in which each operator computes one thing or moves data.
enum class Fuse : std::uint8_t {
  none,      // it stays
  geometry,  // chains of moves become one, and what can be read where it is, is not moved
  all,       // and an RMSNorm is one operator, and so is attention
};
inline constexpr std::array<std::string_view, 3> kFuseNames{"none", "geometry", "all"};

struct GraphOptions {
  bool whole_ffns = false;  // each FFN is one operator, for a policy that carries it out by itself
  bool stages_kv = false;   // attention follows a kv_stage, for a unit that can not read keys and values as they are kept
  Fuse fuse = Fuse::all;
  bool whole_attention = false;  // one operator whatever `fuse` says, for a kernel that has no parts
  std::uint32_t positions = 0;   // of the longest sequence, each of which has a score in attention's parts; 0: the model's context
  bool value = false;  // ends in the value head in place of the output matrix. Requires: the model has one
};

}  // namespace vitro
