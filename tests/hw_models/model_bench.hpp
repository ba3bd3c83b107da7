// One compute model at a DRAM of 10 GB/s without latency, in virtual time.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "hw_models/dram/flow.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {

template <class Model>
class ModelBench {
 public:
  explicit ModelBench(std::string_view params, const std::vector<std::string>& tables = {}) {
    Node dram_node = parse_yaml("{bandwidth: 10 GB/s, latency: 0 ns, capacity: 1 GB, available: 1 GB}", "dram");
    Reader dram_reader(dram_node, "dram");
    dram_params_ = Params(dram_reader, FlowDram::params());
    dram_ = std::make_unique<FlowDram>(Site{context_, "dram"}, dram_params_);
    const Node node = parse_yaml(params, "model");
    Reader reader(node, "model");
    params_ = Params(reader, Model::params());
    for (const std::string& table : tables) params_.add_table(reader, table, false);
    reader.finish();
    model_ = std::make_unique<Model>(Site{context_, "unit", dram_.get(), kMemoryController}, params_);
  }

  Model& model() { return *model_; }
  Picoseconds time_of(const Work& work) {
    const Picoseconds begin = context_.now();
    model_->submit(work, [this] { ended_ = context_.now(); });
    context_.run();
    return ended_ - begin;
  }

 private:
  TestContext context_;
  Params dram_params_, params_;
  std::unique_ptr<FlowDram> dram_;
  std::unique_ptr<Model> model_;
  Picoseconds ended_{-1};
};

}  // namespace vitro::hw
