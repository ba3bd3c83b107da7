// What the tests of this folder share: the embedded models, a scratch folder, and small made-up GGUF files.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/weights.hpp"
#include "engine/quant/blocks.hpp"
#include "tests/source_path.hpp"

namespace vitro {

inline std::string embedded(const std::string& name) { return test::source_path("configs/models/embedded/" + name); }

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "vitro-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw RunError("no scratch folder");
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string str() const { return path_.string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The message of the exception that `action` throws; "" when it throws none of type E.
template <class E = ConfigError>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

// Metadata of a small llama-family model that `change` may bend before it is written, with random weights of `matrices`.
struct SmallModel {
  ModelConfig config;
  Format matrices = Format::f16;
  std::string architecture = "llama";
  std::vector<std::pair<std::string, GgufValue>> extra;  // replaces or adds keys
  std::function<void(std::vector<Weight>&)> change = [](auto&) {};

  SmallModel() {
    config.layers = 2, config.width = 64, config.heads = 4, config.kv_heads = 2, config.head_dim = 16;
    config.ffn = 96, config.vocab = 48, config.context = 32, config.rope.dims = 16;
  }

  void write(const std::string& path) const {
    const auto u32 = [](std::uint32_t v) { return GgufValue(v); };
    std::vector<std::pair<std::string, GgufValue>> values{{"general.architecture", architecture},
                                                          {"general.name", std::string("small")},
                                                          {architecture + ".block_count", u32(config.layers)},
                                                          {architecture + ".embedding_length", u32(config.width)},
                                                          {architecture + ".attention.head_count", u32(config.heads)},
                                                          {architecture + ".attention.head_count_kv", u32(config.kv_heads)},
                                                          {architecture + ".feed_forward_length", u32(config.ffn)},
                                                          {architecture + ".context_length", u32(config.context)},
                                                          {architecture + ".attention.layer_norm_rms_epsilon", 1e-5f}};
    if (config.experts > 0) {
      values.emplace_back(architecture + ".expert_count", u32(config.experts));
      values.emplace_back(architecture + ".expert_used_count", u32(config.experts_used));
    }
    for (const auto& entry : extra) {
      const auto same = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == entry.first; });
      if (same != values.end()) {
        same->second = entry.second;
      } else {
        values.push_back(entry);
      }
    }
    std::vector<Weight> weights = weights_of(config);
    change(weights);
    GgufWriter out(path);
    for (auto& [key, value] : values) out.add(key, value);
    const auto format_of = [&](const Weight& w) { return is_vector(w.role) || w.role == Role::router ? Format::f32 : matrices; };
    for (const Weight& w : weights) {
      std::vector<std::uint64_t> dims{w.columns};
      if (!is_vector(w.role)) dims.push_back(w.rows);
      if (w.experts > 1) dims.push_back(w.experts);
      out.add_tensor(w.name, dims, format_of(w));
    }
    Rng rng(7);
    for (const Weight& w : weights) {
      std::vector<float> values_f32(std::size_t{w.columns} * w.rows * w.experts);
      for (float& x : values_f32) x = static_cast<float>(rng.normal());
      const std::size_t run = format_of(w).has_outliers() ? w.columns : values_f32.size();
      std::vector<std::byte> bytes(row_bytes(format_of(w), run));
      for (std::size_t at = 0; at < values_f32.size(); at += run) {
        quantise_row(format_of(w), &values_f32[at], bytes.data(), run);
        out.write(bytes);
      }
    }
    out.commit();
  }
};

}  // namespace vitro
