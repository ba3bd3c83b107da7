// Any bytes as a GGUF file: header, configuration, tensor data, tokenizer; and as a neuron index of PowerInfer. Only ConfigError and
// RunError may come out, and memory must stay in proportion to the input (the smoke run sets -rss_limit_mb and -malloc_limit_mb).
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/check.hpp"
#include "engine/graph/operator_graph.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/neuron_order.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/quant/blocks.hpp"

namespace {

using namespace vitro;

template <class Action>
void attempt(Action action) {
  try {
    action();
  } catch (const ConfigError&) {
  } catch (const RunError&) {}
}

void read_tensors(const Gguf& gguf) {
  for (const TensorInfo& tensor : gguf.tensors()) {
    std::vector<std::byte> bytes(tensor.size);
    gguf.read(tensor, 0, bytes);
    std::vector<float> row(tensor.columns());
    dequantise_row(tensor.format, bytes.data(), row.data(), row.size());
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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("fuzz", 0);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  const std::string path = fmt::format("/proc/self/fd/{}", file);
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
