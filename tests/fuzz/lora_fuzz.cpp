// Any bytes as a LoRA adapter of a small base: keys, shapes, and the matrices that the engine applies.
#include "engine/model/lora_adapter.hpp"
#include "engine/model/lora_file.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/gguf_mutator.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  vitro::fuzz::try_mutator(VITRO_FUZZ_SEEDS "/lora_fuzz/adapter.gguf");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return vitro::fuzz::mutate_gguf(data, size, most, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vitro;
  static const Gguf base = Gguf::open(VITRO_FUZZ_SEEDS "/gguf_fuzz/llama.gguf");
  static const ModelConfig config = config_from_gguf(base);
  static fuzz::File file;
  const fuzz::Budget budget(size);
  file.hold(fuzz::text_of(data, size));
  fuzz::attempt([&] {
    const LoraFile lora = LoraFile::open(file.path(), base);
    for (const LoraPair& pair : lora.pairs()) {
      VITRO_CHECK(pair.rank() > 0 && pair.rank() == pair.a->dims[1], "both matrices of a pair have one rank");
    }
    const LoraAdapter adapter = adapter_from_file("fuzz", 0.5, lora, config);
    for (const auto& [of, matrices] : adapter.matrices) {
      VITRO_CHECK(matrices.rank() == matrices.b.columns, "rows of B are as long as A has rows");
      for (const Weight* weight : {&matrices.a, &matrices.b}) {
        VITRO_CHECK(weight->extent.offset + weight->extent.length <= size, "matrices lie within their file");
      }
    }
  });
  return 0;
}
