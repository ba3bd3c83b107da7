#include "engine/model/lora_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b";
constexpr double kMostAlpha = 1e6;
constexpr std::uint64_t kLeastAlignment = 4;

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return letters;
}

}  // namespace

LoraFile LoraFile::open(const std::string& path, const Gguf& base) {
  LoraFile file(Gguf::open(path));
  file.check_keys(base);
  file.pair_tensors(base);
  return file;
}

void LoraFile::check_keys(const Gguf& base) {
  const auto expect = [&](std::string_view key, std::string_view value, std::string_view why) {
    const std::string found = gguf_.text(key, "");
    if (found != value) gguf_.fail(key, fmt::format("is \"{}\" (expected \"{}\": {})", found, value, why));
  };
  expect("general.type", "adapter", "the file has to be an adapter, not a model");
  expect("adapter.type", "lora", "other adapters are not read");
  expect("general.architecture", base.text("general.architecture"), fmt::format("that of the base, {}", base.path()));
  if (gguf_.has("adapter.alora.invocation_tokens")) {
    gguf_.fail("adapter.alora.invocation_tokens", "is that of an activated LoRA, which is not read (expected a LoRA that is always on)");
  }
  if (gguf_.alignment() < kLeastAlignment) {
    gguf_.fail("general.alignment",
               fmt::format("is {} (expected {} or more: elements are read where they lie)", gguf_.alignment(), kLeastAlignment));
  }
  alpha_ = gguf_.number("adapter.lora.alpha", 0, kMostAlpha, 0);
}

void LoraFile::pair_tensors(const Gguf& base) {
  for (const TensorInfo& tensor : gguf_.tensors()) {
    const bool a = tensor.name.ends_with(kA);
    if (!a && !tensor.name.ends_with(kB)) gguf_.fail(tensor.name, "is no part of a LoRA (expected names that end in .lora_a or .lora_b)");
    const std::string target = tensor.name.substr(0, tensor.name.size() - kA.size());
    const std::string partner = fmt::format("{}{}", target, a ? kB : kA);
    if (gguf_.find_tensor(partner) == nullptr) gguf_.fail(tensor.name, fmt::format("has no {} beside it", partner));
    if (base.find_tensor(target) == nullptr) {
      gguf_.fail(tensor.name, fmt::format("{} has no tensor {} (expected an adapter of this base)", base.path(), target));
    }
  }
  for (const TensorInfo& tensor : base.tensors()) {
    const LoraPair pair{tensor.name, gguf_.find_tensor(fmt::format("{}{}", tensor.name, kA)),
                        gguf_.find_tensor(fmt::format("{}{}", tensor.name, kB))};
    if (pair.a == nullptr) continue;
    check_pair(pair, tensor, base.path());
    pairs_.push_back(pair);
  }
  if (pairs_.empty())
    throw ConfigError(fmt::format("{}: has no tensors (expected pairs such as blk.0.attn_q.weight.lora_a and .lora_b)", gguf_.path()));
}

void LoraFile::check_pair(const LoraPair& pair, const TensorInfo& base, const std::string& base_path) const {
  const auto refuse = [&](const TensorInfo& tensor, const std::string& expected) {
    gguf_.fail(tensor.name, fmt::format("has the shape [{}], and {} in {} has [{}] (expected {})", fmt::join(tensor.dims, ", "), base.name,
                                        base_path, fmt::join(base.dims, ", "), expected));
  };
  if (base.name == "token_embd.weight") gguf_.fail(pair.a->name, "adapts the embedding, which is not supported (expected matrices)");
  if (base.format == Format::index32) gguf_.fail(pair.a->name, "adapts an order of columns (expected matrices)");
  if (base.dims.size() < 2) refuse(*pair.a, "an adapter of a matrix");
  for (const TensorInfo* tensor : {pair.a, pair.b}) {
    const bool outer =
        tensor->dims.size() == base.dims.size() && std::equal(base.dims.begin() + 2, base.dims.end(), tensor->dims.begin() + 2);
    if (!outer) refuse(*tensor, "a matrix for each of the base's");
  }
  if (pair.a->dims[0] != base.dims[0]) refuse(*pair.a, fmt::format("rows of {} elements", base.dims[0]));
  if (pair.b->dims[1] != base.dims[1]) refuse(*pair.b, fmt::format("{} rows", base.dims[1]));
  if (pair.a->dims[1] != pair.rank()) {
    gguf_.fail(pair.a->name,
               fmt::format("has {} rows and {} has rows of {} elements (expected one rank)", pair.a->dims[1], pair.b->name, pair.rank()));
  }
}

std::string LoraFile::doubt(const Gguf& base) const {
  const std::string wanted = gguf_.text("general.base_model.0.name", ""), name = base.text("general.name", "");
  const std::string a = letters_of(wanted), b = letters_of(name);
  if (a.find(b) != std::string::npos || b.find(a) != std::string::npos) return {};
  return fmt::format("{} was made for \"{}\" by its general.base_model.0.name, and {} is \"{}\": shapes fit, the values may not",
                     gguf_.path(), wanted, base.path(), name);
}

float LoraFile::scale(const LoraPair& pair, double strength) const {
  return static_cast<float>(alpha_ == 0 ? strength : strength * alpha_ / static_cast<double>(pair.rank()));
}

}  // namespace vitro
