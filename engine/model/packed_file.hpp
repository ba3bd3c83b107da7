// The packed file: a model's weights re-laid once per target, so that every read during a run is page-aligned and in the
// order in which kernels take it. Made from a GGUF file by streaming (memory: one group of rows), cached, and made anew
// when the source, the plan or the file itself is no longer what it was. docs/formats.md describes the bytes.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "engine/model/gguf.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

struct PackOptions {
  // Formats of matrices to store as Layout::tiled (16 rows interleaved), where the row count allows it. The token
  // embedding always stays Layout::rows: it is read row by row.
  std::set<Format> tiled{Format::q4_0, Format::q8_0};
  std::set<Role> never_tiled;  // roles that stay Layout::rows although their format could be tiled
};

struct PackedModel {
  std::string path;
  Bytes size = 0;
  bool reused = false;  // false: this call wrote it
  ModelConfig config;
  std::vector<Weight> weights;  // extents with FileId{}

  // The same weights in the file that Storage::open(path) answered.
  WeightStore store(FileId file) const;
};

// Finds or makes the packed file of `gguf` in `cache_dir` (created when missing). Vectors become f32; matrices keep their
// format and bits. A cached file that is damaged or belongs to another state of the source is replaced. Writing is atomic.
// Throws ConfigError for a bad model or an unusable folder, RunError when the disk is full or the source changes meanwhile.
PackedModel pack(const Gguf& gguf, const PackOptions& options, const std::string& cache_dir);

// What pack() checks before it reuses a file: "" when `path` is a whole packed file of this source and plan, else the
// reason why not, such as "model.vpacked: the file is 4096 bytes long (expected 8192)".
std::string why_stale(const std::string& path, const Gguf& gguf, const PackOptions& options);

}  // namespace vitro
