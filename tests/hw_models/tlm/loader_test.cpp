#include "hw_models/tlm/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw_models/tlm/systemc_context.hpp"
#include "tests/hw_models/tlm/fresh_context.hpp"

namespace vitro::hw {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kFolder = VITRO_PLUGIN_FOLDER;

// A block of a device as the machine reads it, and the model made of it.
template <class M>
std::unique_ptr<M> made(const std::string& text, Context& context, DramModel* memory = nullptr) {
  static std::vector<std::unique_ptr<Params>> kept;  // models refer to them
  Registry registry = builtin_models();
  register_tlm(registry);
  const Node block = parse_yaml("{" + text + "}", kFolder + "/phone.yaml");
  Reader reader(block, "block");
  const auto& found = [&]() -> const Entry<M>& {
    if constexpr (std::is_same_v<M, DramModel>) return registry.dram(reader, "lpddr");
    if constexpr (std::is_same_v<M, Initiator>) return registry.initiator(reader, "tlm_initiator");
  }();
  const Entry<M> entry = found.specialise(reader);
  kept.push_back(std::make_unique<Params>(reader, entry.params));
  reader.finish();
  return entry.make({context, memory == nullptr ? "dram" : "agent", memory}, *kept.back());
}

const std::string kDram = "model: tlm, capacity: 1 GB, available: 1 GB, plugin: ";

std::string refusal(const std::string& text) {
  FreshContext fresh;
  SystemCContext context("context");
  try {
    made<DramModel>(text, context);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(made)";
}

TEST(TlmLoader, a_dram_of_a_plugin_serves_its_ports_by_both_protocols) {
  for (const char* protocol : {"registered", "loosely_timed", "approximately_timed"}) {
    FreshContext fresh;
    SystemCContext context("context");
    const auto dram = made<DramModel>(kDram + "bank_dram.so, bus: 10 GB/s, transaction: 1 KiB, protocol: " + protocol, context);
    Picoseconds end{0};
    const PortId port = dram->add_port({"a", {1e12}});
    dram->submit({port, 64 * KiB, 0, Picoseconds(0), 0}, [&] {
      end = context.now();
      sc_core::sc_stop();
    });
    sc_core::sc_start();
    // The bus, the first row and its latency; refreshes close rows twice.
    EXPECT_NEAR(to_seconds(end), 65536 / 10e9 + 56e-9, 0.7e-6) << protocol;
    EXPECT_EQ(dram->totals().bytes_read, 65536);
  }
}

TEST(TlmLoader, an_initiator_of_a_plugin_loads_any_dram) {
  for (const char* style : {"phases", "blocking"}) {
    FreshContext fresh;
    SystemCContext context("context");
    const auto dram = made<DramModel>(kDram + "bank_dram.so, bus: 50 GB/s", context);
    const std::string block = "plugin: traffic.so, rate: 5 GB/s, written: 50%, style: ";
    const auto traffic = made<Initiator>(block + style, context, dram.get());
    sc_core::sc_start(sc_core::sc_time(100, sc_core::SC_US));
    EXPECT_NEAR(traffic->bytes_moved(Picoseconds(0), context.now()), 500e3, 10e3) << style;
    EXPECT_NEAR(dram->totals().bytes_written, 250e3, 10e3) << style;
  }
}

TEST(TlmLoader, values_are_refused_where_they_were_written) {
  const std::string place = kFolder + "/phone.yaml:1: block.";
  EXPECT_THAT(refusal(kDram + "bank_dram.so"), AllOf(StartsWith(place + "bus"), HasSubstr("is missing")));
  EXPECT_THAT(refusal(kDram + "bank_dram.so, bus: 1 GB/s, banks: 0"), StartsWith(place + "banks: must be 1 or more"));
  EXPECT_THAT(refusal(kDram + "bank_dram.so, bus: 1 GB/s, bank: 8"), HasSubstr("block.bank: unknown key"));
  EXPECT_THAT(refusal(kDram + "bank_dram.so, bus: 1 GB/s, transaction: 100 B"), StartsWith(place + "transaction: must be a power of two"));
  EXPECT_THAT(refusal(kDram + "bank_dram.so, bus: 1 GB/s, outstanding: 0"), StartsWith(place + "outstanding: must be a whole number"));
  EXPECT_THAT(refusal(kDram + "good.so, protocol: approximately_timed"),
              StartsWith(place + "protocol: \"approximately_timed\" is not what the target \"constant\" has registered"));
  EXPECT_THAT(refusal(kDram + "good.so, speed: 2000 GB/s"), StartsWith(place + "speed: is above what any memory reaches"));
  EXPECT_THAT(refusal("model: tlm, capacity: 1 GB, available: 1 GB"), StartsWith(place + "plugin: is missing"));
}

TEST(TlmLoader, what_is_no_such_plugin_is_refused) {
  EXPECT_THAT(refusal(kDram + "missing.so"), AllOf(StartsWith(kFolder + "/phone.yaml:1: block.plugin: \"missing.so\" is not a file")));
  EXPECT_THAT(refusal(kDram + "traffic.so"), HasSubstr("\"traffic.so\" has no TLM target, but a TLM initiator (expected one that says "
                                                       "VITRO_TLM_TARGET"));
  EXPECT_THAT(refusal(kDram + "abi.so"), HasSubstr("was built for TLM plug-in ABI 999, and this vitro has 1"));
  EXPECT_THAT(refusal(kDram + "systemc.so"), HasSubstr("was built for SystemC 1.0, and this vitro has 2.3.4"));
}

TEST(TlmLoader, what_a_plugin_does_wrong_is_a_message) {
  EXPECT_THAT(refusal(kDram + "throws.so"), HasSubstr("\"throws.so\" can not make its module: no licence for this memory"));
  EXPECT_THAT(refusal(kDram + "unknown_key.so"), HasSubstr("asks for \"colour\", which is none of its parameters"));
  EXPECT_THAT(refusal(kDram + "not_connected.so"), HasSubstr("connected none of its sockets"));
  EXPECT_THAT(refusal(kDram + "taken_key.so"), HasSubstr("has a parameter \"capacity\", which is there already"));
  EXPECT_THAT(refusal(kDram + "wrong_default.so"), HasSubstr("has the default \"soon\" for its parameter \"delay\""));
}

TEST(TlmLoader, tells_what_is_in_a_file) {
  const auto modules_in = [](const std::string& file) { return tlm_modules({kFolder + "/" + file, file, "here"}); };
  const std::optional<TlmModules> modules = modules_in("good.so");
  ASSERT_TRUE(modules);
  EXPECT_EQ(modules->name, "constant");
  EXPECT_THAT(modules->models, ElementsAre("tlm"));
  EXPECT_THAT(modules->keys, ElementsAre("fault", "speed"));
  EXPECT_THAT(modules_in("traffic.so").value().models, ElementsAre("tlm_initiator"));
  EXPECT_FALSE(modules_in("neither.so"));
}

TEST(TlmLoader, among_plugins_of_the_registry_it_says_where_it_belongs) {
  Registry registry = builtin_models();
  try {
    load_plugin(registry, {kFolder + "/good.so", "good.so", "here"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds SystemC modules (expected its path behind `plugin:`"));
  }
}

}  // namespace
}  // namespace vitro::hw
