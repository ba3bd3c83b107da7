// The packed file: a model's weights re-laid once per target, so that every read during a run is page-aligned and in the
// order in which kernels take it. Made from a GGUF file by streaming (memory: one group of rows; with bundles 64 MiB of
// columns), cached, and made anew when the source, the plan or the file itself is no longer what it was. docs/reference/formats.md
// describes the bytes.
#pragma once
#include <string>
#include <vector>

#include "engine/model/gguf.hpp"
#include "engine/model/pack_options.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

struct PackedModel {
  std::string path;
  Bytes size = 0;
  bool reused = false;  // false: this call wrote it
  ModelConfig config;
  std::vector<Weight> weights;  // extents with FileId{}
  NeuronOrder order;            // of the neurons in bundles; empty: as in the model

  // The same weights in the file that Storage::open(path) answered.
  WeightStore store(FileId file) const;
};

// Finds or makes the packed file of `gguf` in `cache_dir` (created when missing). Vectors become f32; matrices keep their
// format and bits, bundles as bundle_writer.hpp says. A cached file that is damaged or belongs to another state of the source
// is replaced. Writing is atomic.
// Throws ConfigError for a bad model or an unusable folder, RunError when the disk is full or the source changes meanwhile.
PackedModel pack(const Gguf& gguf, const PackOptions& options, const std::string& cache_dir);

// Writes the packed file to `path`, whatever is there. Throws as pack() does, and when `path` is the source.
PackedModel pack_to(const Gguf& gguf, const PackOptions& options, const std::string& path);

// A packed file that somebody else made of `gguf`, with its own options and order. Throws ConfigError when it was made from
// another model or state of it, or is damaged anywhere; the weights are read for that once per state of the file, as a note in
// `cache_dir` tells.
PackedModel open_packed(const std::string& path, const Gguf& gguf, const std::string& cache_dir);

// Reads all of a packed file, without its model. Throws ConfigError that says what is damaged.
void verify_packed(const std::string& path);

// What pack() checks before it reuses a file: "" when `path` is a whole packed file of this source and plan, else the
// reason why not, such as "model.vpacked: the file is 4096 bytes long (expected 8192)". With a cache_dir the weights, too.
std::string why_stale(const std::string& path, const Gguf& gguf, const PackOptions& options, const std::string& cache_dir = "");

}  // namespace vitro
