// vitro-device: the engine and the host machine in one static binary, for phones. Reads a resolved experiment as JSON
// (`vitro run EXP.yaml --resolve` writes one) and prints the result object.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/app/session.hpp"
#include "engine/base/out_of_memory.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app{"vitro-device: run a resolved vitro experiment on this machine"};
  app.footer("Examples:\n  vitro-device run experiment.json\n  vitro-device run experiment.json --model stories.gguf --out results/");
  std::string experiment_path, model, out_dir, cache_dir = "vitro-cache";
  CLI::App* run = app.add_subcommand("run", "run one experiment, print its result as JSON");
  run->add_option("experiment", experiment_path, "resolved experiment (JSON)")->required();
  run->add_option("--model", model, "GGUF file to use instead of the one that the experiment names");
  run->add_option("--out", out_dir, "folder for trace.json, decisions.jsonl and result.json");
  run->add_option("--cache", cache_dir, "folder for re-packed models")->capture_default_str();
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  vitro::Node root = vitro::load_json(experiment_path);
  root.set("machine", vitro::Node::scalar("host"));
  if (!model.empty()) root.set("model", vitro::Node::map({{"gguf", vitro::Node::scalar(model, {}, true)}}));
  const vitro::Experiment experiment = vitro::read_experiment(root);
  const auto result = vitro::run_experiment(experiment, {out_dir, cache_dir, nullptr}, vitro::make_host);
  if (!out_dir.empty()) vitro::write_result(out_dir, result);
  std::printf("%s\n", vitro::to_text(result).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  vitro::exit_when_memory_ends();
  try {
    return run(argc, argv);
  } catch (const vitro::ConfigError& error) {
    std::fprintf(stderr, "vitro-device: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vitro-device: %s\n", error.what());
    return 1;
  }
}
