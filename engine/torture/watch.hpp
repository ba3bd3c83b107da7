// The shadow models of a torture run, beside its engine.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/app/experiment.hpp"
#include "engine/machine/machine.hpp"
#include "engine/torture/shadow/shadow.hpp"
#include "engine/torture/shadow/shadow_decisions.hpp"
#include "engine/torture/shadow/shadow_rules.hpp"
#include "engine/transformer/decoder.hpp"

namespace vitro {

class Watch {
 public:
  // between: ShadowRules::Between.
  Watch(const Experiment& experiment, ShadowRules::Between between);

  std::unique_ptr<MachineHost> before(std::unique_ptr<MachineHost> host);
  // Weights that the engine reads from now on. It outlives this.
  void know(const WeightStore& weights);

  void decoder_begins() { decisions_.begin_anew(); }
  void request_begins(const Decoder& decoder);
  // The request has ended, with its tokens or an error, and the engine is at rest. Requires: the decoder was loaded.
  void request_ends(const Decoder& decoder, bool well);

  std::vector<std::string> findings() const;
  ShadowCounts counts() const;

 private:
  void hold_sums_against(const Decoder& decoder);
  void expect(bool holds, const std::string& what);
  Bytes brought_of_ffns() const;

  const Experiment& experiment_;
  ShadowRules rules_;
  ShadowDecisions decisions_;
  Shadow shadow_;
  const WeightStore* weights_ = nullptr;
  // When the request began.
  ShadowDecisions::Loads loads_;
  CacheStats cached_;
  std::uint64_t kept_ = 0;
  Bytes kv_read_ = 0, kv_written_ = 0;
};

}  // namespace vitro
