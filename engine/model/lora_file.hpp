// A LoRA adapter in a GGUF file, as llama.cpp's converter writes it (`general.type: adapter`, `adapter.type: lora`): for a base
// tensor T the tensors T.lora_a, A [rank, columns of T], and T.lora_b, B [rows of T, rank]. The adapted product is
// W x + scale B (A x) (LoRA, arXiv 2106.09685; MNN-LLM 5.5).
#pragma once
#include <string>
#include <vector>

#include "engine/model/gguf.hpp"

namespace vitro {

struct LoraPair {
  std::string target;  // the base tensor: "blk.3.attn_q.weight"
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;  // of the experts of a mixture: one matrix each, as the base has them

  std::uint64_t rank() const { return b->columns(); }
};

class LoraFile {
 public:
  // Holds every tensor against the base's. Throws ConfigError that names file and tensor, or file and key: for a file that is no
  // LoRA adapter, one for another architecture, a tensor without its partner, and shapes that do not fit.
  static LoraFile open(const std::string& path, const Gguf& base);

  const Gguf& gguf() const { return gguf_; }
  const std::vector<LoraPair>& pairs() const { return pairs_; }  // in the order of the base's tensors
  // What speaks against this base although all shapes fit: the name of another one (`general.base_model.0.name`, as converters copy it
  // from a model card). Names are compared by letters and digits, and one may be a part of the other. Empty: nothing.
  std::string doubt(const Gguf& base) const;
  // `strength` times alpha / rank; `strength` where the file has no alpha.
  float scale(const LoraPair& pair, double strength) const;

 private:
  explicit LoraFile(Gguf gguf) : gguf_(std::move(gguf)) {}
  void check_keys(const Gguf& base);
  void pair_tensors(const Gguf& base);
  void check_pair(const LoraPair& pair, const TensorInfo& base, const std::string& base_path) const;

  Gguf gguf_;
  double alpha_ = 0;
  std::vector<LoraPair> pairs_;
};

}  // namespace vitro
