// A model on the virtual machine, ready to decode: what the tests of this folder share.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/app/loaded_model.hpp"
#include "engine/app/scaling/search.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/variants.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "engine/transformer/decoder.hpp"
#include "tests/source_path.hpp"

namespace vitro {

inline const std::string kStories = test::source_path("configs/models/embedded/stories-reglu-3m.f16.gguf");

inline EngineConfig dense_engine(std::uint32_t threads = 1) {
  EngineConfig engine;
  engine.placement.threads = threads;
  engine.products.matmul = variant::kFloat;
  return engine;
}

inline VirtualMachineSpec two_cores(std::uint64_t shuffle) {
  VirtualMachineSpec spec;
  for (std::uint32_t i = 0; i < 2; ++i) {
    UnitCaps caps;
    caps.id = UnitId(i);
    caps.name = "cpu" + std::to_string(i);
    spec.units.push_back(caps);
  }
  spec.shuffle = shuffle;
  return spec;
}

struct Bench {
  explicit Bench(PolicyLimits limits, std::uint64_t seed = 1, std::uint32_t threads = 1, std::uint64_t shuffle = 1,
                 const std::string& gguf = kStories)
      : host(two_cores(shuffle), function, trace) {
    host.machine().seed = seed;
    const EngineConfig engine = dense_engine(threads);
    const auto cache = std::filesystem::temp_directory_path() / ("vitro_scaling_" + std::to_string(::getpid()));
    model = load_model({gguf, "", {}}, engine, cache.string());
    weights = model.open(host.machine().storage);
    decoder = make_decoder(host.machine(), engine, {}, model.config, weights, limits);
  }

  Transformer& transformer() { return *decoder.transformer; }
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> ids{*model.tokenizer->bos()};
    for (const std::int32_t id : model.tokenizer->encode(text)) ids.push_back(id);
    return ids;
  }

  ComputeFunction function;
  NullTrace trace;
  VirtualMachine host;
  LoadedModel model;
  WeightStore weights;
  Decoder decoder;
};

inline PolicyLimits limits_of(std::uint32_t samples, std::uint32_t positions) {
  return {std::max(samples, 32u), samples, samples * (positions + 32), positions};
}

}  // namespace vitro
