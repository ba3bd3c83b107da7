#include "engine/app/setup_notes.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

namespace vitro {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Four layers of the width of a 7B model: a token reads enough for a second core. One of the small model does not.
constexpr std::string_view kLarge =
    R"({"family": "llama", "name": "large", "layers": 4, "width": 4096, "heads": 32, "kv_heads": 8, "ffn": 8192, "vocab": 32000,
        "context": 256, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 64})";
constexpr std::string_view kSmall =
    R"({"family": "llama", "name": "small", "layers": 2, "width": 64, "heads": 2, "kv_heads": 2, "ffn": 128, "vocab": 64,
        "context": 64, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000})";

std::string notes(std::string_view shape, const std::string& engine, Bytes flash_bytes = 0) {
  constexpr const char* kRun = R"({"experiment": "e", "machine": "host", "model": {"format": "q4_0"}, "workload": {"prompt_tokens": 4}})";
  Node root = parse_json(kRun, "e.json");
  root.set_path("model.shape", parse_json(shape, "e.json"));
  root.set("engine", parse_json(engine, "e.json"));
  const Experiment experiment = read_experiment(root);
  const LoadedModel model = load_model(experiment.model, experiment.engine, "");
  return fmt::format("{}", fmt::join(setup_notes(experiment, model, model.shapes(FileId{}), flash_bytes), "\n"));
}

TEST(SetupNotes, one_core_that_computes_a_large_model_in_float_is_told) {
  const auto told = HasSubstr("one core computes all matmuls in float32");
  EXPECT_THAT(notes(kLarge, R"({"activations": "float", "threads": 1})"), told);
  EXPECT_THAT(notes(kLarge, R"({"activations": "float", "units": ["cpu2"]})"), told);
  EXPECT_THAT(notes(kLarge, R"({"activations": "float", "policy": "mmap"})"), told)
      << "parts that hand work out by themselves have one core unless told";
  EXPECT_THAT(notes(kLarge, "{}"), IsEmpty()) << "as many as help";
  EXPECT_THAT(notes(kLarge, R"({"activations": "float", "threads": 2})"), IsEmpty());
  EXPECT_THAT(notes(kLarge, R"({"threads": 1})"), IsEmpty()) << "integer products of quantised weights are the default";
  EXPECT_THAT(notes(kLarge, R"({"activations": "float", "units": ["gpu"]})"), IsEmpty());
  EXPECT_THAT(notes(kSmall, R"({"activations": "float", "threads": 1})"), IsEmpty());
}

TEST(SetupNotes, one_core_that_nobody_asked_for_is_told) {
  const auto told = HasSubstr("one core computes all matmuls, since none are named");
  EXPECT_THAT(notes(kLarge, R"({"policy": "mmap"})"), told);
  EXPECT_THAT(notes(kLarge, R"({"policy": "mmap", "threads": 1})"), IsEmpty());
  EXPECT_THAT(notes(kLarge, R"({"policy": "mmap", "units": ["cpu0"]})"), IsEmpty());
  EXPECT_THAT(notes(kSmall, R"({"policy": "mmap"})"), IsEmpty());
}

TEST(SetupNotes, a_balance_that_nothing_is_measured_for_is_told) {
  EXPECT_THAT(notes(kLarge, R"({"placement": {"units": ["cpu0", "cpu1"], "balance": "rates"}})"), IsEmpty());
  EXPECT_THAT(notes(kLarge, R"({"placement": {"units": ["cpu0", "npu"], "balance": "rates"}})"),
              HasSubstr("balance: rates has no effect: npu is among the units"));
  EXPECT_THAT(notes(kLarge, R"({"placement": {"kind": "layers", "units": ["cpu0", "cpu1", "npu"], "balance": "rates"}})"),
              HasSubstr("balance: rates has no effect: engine.placement.kind is layers"));
}

TEST(SetupNotes, a_layout_of_which_a_neuron_takes_more_reads_is_told_with_what_it_takes) {
  const auto layout = [](const std::string& name, const std::string& more = "", Bytes flash_bytes = 1) {
    return notes(kLarge, R"({"policy": "neuron_cluster", "threads": 2, "layout": ")" + name + "\"" + more + "}", flash_bytes);
  };
  EXPECT_THAT(layout("bundles"), IsEmpty());
  EXPECT_THAT(layout("auto"), AllOf(HasSubstr("engine.layout: scales_resident"), HasSubstr("2 reads of 4.00 KiB and 4.00 KiB"),
                                    HasSubstr("1 read of 8.00 KiB"), HasSubstr("two_phases: false")));
  EXPECT_THAT(layout("bundles_two_phase"), AllOf(HasSubstr("2 reads of 4.00 KiB and 8.00 KiB"), Not(HasSubstr("two_phases: false"))));
  EXPECT_THAT(layout("scales_resident", R"(, "clusters": {"two_phases": false})"), IsEmpty());
  EXPECT_THAT(layout("auto", R"(, "clusters": {"bundle": false})"), HasSubstr("3 reads of "));
  EXPECT_THAT(layout("auto", "", 0), IsEmpty()) << "nothing came from flash";
}

}  // namespace
}  // namespace vitro
