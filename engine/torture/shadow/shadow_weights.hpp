// Which matrix of which layer and expert stands at an offset of a file.
#pragma once
#include <optional>
#include <vector>

#include "engine/model/weights.hpp"

namespace vitro {

class ShadowWeights {
 public:
  struct Place {
    const Weight* weight = nullptr;
    std::uint32_t expert = 0;
    Bytes offset = 0;  // in that matrix
  };

  void add(const WeightStore& weights);  // It outlives this.
  std::optional<Place> at(FileId file, Bytes offset) const;
  // Why row `row` of a call's weights must not be what stands at `place`, where byte `expected` of its matrix should; empty: it may.
  static std::string mismatch(const KernelCall& call, const Place& place, std::uint32_t row, Bytes expected);

 private:
  std::vector<const Weight*> all_;
};

}  // namespace vitro
