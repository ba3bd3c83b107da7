#include "engine/torture/random_adapter.hpp"

#include <vector>

#include "engine/base/rng.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/lora_adapter.hpp"
#include "engine/model/weights.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kMostRank = 8;

struct Pair {
  Weight base;
  std::uint64_t rank;
  Format format;
};

std::vector<Pair> drawn_pairs(Rng& rng, const ModelConfig& config) {
  std::vector<Weight> could;
  std::vector<Pair> pairs;
  for (const Weight& weight : weights_of(config)) {
    if (is_adaptable(weight, config)) could.push_back(weight);
  }
  const std::size_t always = rng.below(could.size());
  for (std::size_t i = 0; i < could.size(); ++i) {
    const bool drawn = rng.below(2) == 0;
    const std::uint64_t rank = 1 + rng.below(kMostRank);
    if (drawn || i == always) {
      pairs.push_back({could[i], rank, rng.below(2) == 0 ? Format::f32 : Format::f16});
    }
  }
  return pairs;
}

}  // namespace

void write_random_adapter(std::uint64_t seed, const std::string& base, const std::string& path) {
  const Gguf gguf = Gguf::open(base);
  Rng rng(mix(seed, {0x6c6f7261}));
  const std::vector<Pair> pairs = drawn_pairs(rng, config_from_gguf(gguf));
  GgufWriter out(path);
  out.add("general.architecture", gguf.text("general.architecture"));
  out.add("general.type", std::string("adapter"));
  out.add("adapter.type", std::string("lora"));
  out.add("adapter.lora.alpha", static_cast<float>(1 + rng.below(8)));
  for (const Pair& pair : pairs) {
    out.add_tensor(pair.base.name + ".lora_a", {pair.base.columns, pair.rank}, pair.format);
    out.add_tensor(pair.base.name + ".lora_b", {pair.rank, pair.base.rows}, pair.format);
  }
  for (const Pair& pair : pairs) {
    for (const std::uint64_t elements : {pair.rank * pair.base.columns, pair.rank * pair.base.rows}) {
      std::vector<float> floats(elements);
      for (float& x : floats) x = 0.25f * static_cast<float>(rng.normal());
      std::vector<std::byte> bytes(row_bytes(pair.format, elements));
      quantise_row(pair.format, floats.data(), bytes.data(), elements);
      out.write(bytes);
    }
  }
  out.commit();
}

}  // namespace vitro
