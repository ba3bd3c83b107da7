// `engine.ffn.clusters:` how FFNs are computed neuron by neuron (PowerInfer-2, section 4).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/config.hpp"

namespace vitro {

struct ClusterConfig {
  std::string pipeline = "cluster";  // none: all reads, then all computing; matrix, cluster: they overlap within one (section 4.3)
  std::uint32_t neurons = 64;        // most of one cluster
  std::string io_core;               // issues all reads; empty: the first of the units, which is the fastest
  std::uint32_t io_depth = 0;        // reads in flight; 0: as many as the storage has slots for
  std::uint32_t io_together = 0;     // of those, most that are one submission and are taken as one; 0: by the depth
  std::uint32_t dense_rows = 16;     // a step of so many rows computes every neuron
  std::optional<float> threshold;    // |act(gate)| above which a neuron is active; none: the model's own by layer, else 0
  bool predictors = true;            // those of the model, if it has any; else every gate is computed
  bool measure = false;              // computes every gate beside the predictor, to know its recall and precision
  bool keep_silent = true;           // blocks that a predictor named stay, whether a neuron of theirs fired or not
  // Hot neurons, where the placement gives an accelerator a share of them.
  std::uint32_t hot_cluster = 512;    // neurons of a hot cluster, the unit of the hot region
  std::optional<double> hot_in_dram;  // share of all FFN bytes that hot clusters may take; none: what the splits ask for
};

ClusterConfig read_clusters(Reader reader);

}  // namespace vitro
