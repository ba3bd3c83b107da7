#include "engine/parts/ffn/neuron_cluster/cluster_config.hpp"

namespace vitro {

ClusterConfig read_clusters(Reader reader) {
  ClusterConfig clusters;
  clusters.pipeline = reader.choice("pipeline", {"none", "matrix", "cluster"}, clusters.pipeline);
  clusters.neurons = static_cast<std::uint32_t>(reader.integer("neurons", 1, 1 << 20, clusters.neurons));
  clusters.io_core = reader.text("io_core", "");
  clusters.io_depth = static_cast<std::uint32_t>(reader.integer("io_depth", 1, 1024, clusters.io_depth));
  clusters.io_together = static_cast<std::uint32_t>(reader.integer("io_together", 1, 1024, clusters.io_together));
  clusters.dense_rows = static_cast<std::uint32_t>(reader.integer("dense_rows", 1, 1 << 20, clusters.dense_rows));
  if (reader.has("threshold")) clusters.threshold = static_cast<float>(reader.number("threshold", 0, 1e6));
  clusters.predictors = reader.boolean("predictors", true);
  clusters.measure = reader.boolean("measure", false);
  clusters.keep_silent = reader.choice("keep", {"named", "fired"}, "named") == "named";
  clusters.hot_cluster = static_cast<std::uint32_t>(reader.integer("hot_cluster", 1, 1 << 20, clusters.hot_cluster));
  if (reader.has("hot_in_dram")) clusters.hot_in_dram = reader.share("hot_in_dram", 0);
  reader.finish();
  return clusters;
}

}  // namespace vitro
