// Attention in fp16 (variant kLutExp and its like) as operators of the Hexagon worker: one for up to kAttentionRows rows of a sequence,
// whose plan is that of the simulated NPU (engine/base/attention_plan.hpp).
#pragma once
#include <optional>

#include "engine/host/hexagon_session.hpp"
#include "engine/host/hexagon_stages.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro::hexagon {

class Attention {
 public:
  Attention(HexagonSession& session, const StageOptions& stages) : session_(session), stages_(stages) {}

  // True for calls whose heads the worker's tiles hold; all other attention belongs to the cores. Requires: check_call(call) passed.
  static bool takes(const KernelCall& call);

  // Computes the call, in as many requests as it needs. False when a head's row has no room, or the worker was given up: then some of the
  // output may be there, and a core computes all of it again. Requires: takes(call).
  bool run(const KernelCall& call);

  std::uint64_t operators() const { return operators_; }  // that the worker computed
  std::uint64_t requests() const { return requests_; }

 private:
  bool place_table();  // of 2^x, for calls that look it up
  bool run_f32(const KernelCall& call);

  HexagonSession& session_;
  const StageOptions stages_;
  std::optional<std::uint32_t> table_;  // in the session
  std::uint64_t operators_ = 0, requests_ = 0;
};

}  // namespace vitro::hexagon
