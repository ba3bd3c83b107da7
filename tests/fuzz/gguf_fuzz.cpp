// Any bytes as a GGUF file: header, configuration, tensor data, tokenizer; and as a neuron index of PowerInfer.
#include <algorithm>
#include <cstdint>

#include "engine/base/file.hpp"
#include "engine/graph/operator_graph.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/neuron_order.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/quant/blocks.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/gguf_mutator.hpp"

namespace {

using namespace vitro;

using fuzz::attempt;

void read_tensors(const Gguf& gguf) {
  for (const TensorInfo& tensor : gguf.tensors()) {
    std::vector<std::byte> bytes(tensor.size);
    gguf.read(tensor, 0, bytes);
    if (tensor.format != Format::index32) {  // an order of columns has no values
      std::vector<float> row(tensor.columns());
      dequantise_row(tensor.format, bytes.data(), row.data(), row.size());
    }
    attempt([&] { gguf.check_blocks(tensor); });
  }
}

void tokenize(const Gguf& gguf) {
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  attempt([&] {
    const auto ids = tokenizer->encode(" Once upon\xff a time, 12345\n\n\xe4\xbd\xa0 it's  <s>");
    for (const std::int32_t id : ids) VITRO_CHECK(id >= 0 && id < tokenizer->size(), "an id outside the vocabulary");
    tokenizer->decode(ids);
  });
  for (std::int32_t id = 0; id < std::min(tokenizer->size(), 64); ++id) tokenizer->piece(id);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::try_mutator(VITRO_FUZZ_SEEDS "/gguf_fuzz/llama.gguf");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return vitro::fuzz::mutate_gguf(data, size, most, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::File file;
  const fuzz::Budget budget(size);
  file.hold(fuzz::text_of(data, size));
  const std::string path = file.path();
  attempt([&] {
    ModelConfig tiny;
    tiny.layers = 2, tiny.ffn = 6;
    read_gpuidx(path, tiny);
  });
  attempt([&] {
    const Gguf gguf = Gguf::open(path);
    attempt([&] { build_graph(config_from_gguf(gguf)); });
    attempt([&] { read_tensors(gguf); });
    attempt([&] { tokenize(gguf); });
  });
  return 0;
}
