// Any YAML as a composed experiment, as an execution plan, as a schedule of faults and as a case of a torture run.
#include "engine/app/experiment.hpp"
#include "engine/app/plan.hpp"
#include "engine/faults/fault_plan.hpp"
#include "engine/torture/torture.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace vitro;

// A plan is of one device and one model. Those of this experiment stand in for the words DEVICE and MODEL.
void read_as_plan(std::string text) {
  static fuzz::File file;
  static const Node experiment = parse_yaml(R"(
experiment: fuzz
device: {name: fuzz}
model: {shape: {name: tiny, layers: 2, width: 64, heads: 2, kv_heads: 1, ffn: 128, vocab: 256, context: 64}, format: q4_0}
engine: {policy: neuron_cluster}
memory: {ffn_in_dram: 50%}
)", "experiment");
  const std::pair<std::string, std::string> fingerprints[] = {{"DEVICE", device_fingerprint(*experiment.find("device"))},
                                                              {"MODEL", model_fingerprint(*experiment.find("model"))}};
  for (const auto& [word, fingerprint] : fingerprints) {
    if (const std::size_t at = text.find(word); at != std::string::npos) text.replace(at, word.size(), "\"" + fingerprint + "\"");
  }
  file.hold(text);
  Node planned = experiment;
  Node engine = *planned.find("engine");
  engine.set("plan", Node::scalar(file.path(), {}));
  planned.set("engine", engine);
  apply_plan(planned);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::attempt;
  const fuzz::Budget budget(size);
  const std::string text(fuzz::text_of(data, size));
  attempt([&] {
    const Node node = parse_yaml(text, "fuzz");
    attempt([&] { read_experiment(node); });
    attempt([&] {
      const FaultPlan plan = read_faults(Reader(node, ""));
      VITRO_CHECK(read_faults(Reader(parse_json(to_json(plan), "written"), "")) == plan, "a written schedule reads back differently");
    });
    attempt([&] {
      const std::string written = to_json(torture_case(node));
      VITRO_CHECK(to_json(torture_case(parse_json(written, "written"))) == written, "a written case reads back differently");
    });
  });
  attempt([&] { read_as_plan(text); });
  return 0;
}
