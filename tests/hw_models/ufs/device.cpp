#include "tests/hw_models/ufs/device.hpp"

#include "tests/source_path.hpp"

namespace vitro::hw {

Node preset(const std::string& name, const std::string& fidelity, const std::string& changes) {
  Node node = load_yaml(test::source_path("configs/storage/" + name + ".yaml"));
  node.set("fidelity", Node::scalar(fidelity));
  const Node changed = parse_yaml("{" + changes + "}", "changes");
  for (const auto& [key, value] : changed.entries()) node.set(key, value);
  return node;
}

}  // namespace vitro::hw
