// Whole runs with the products on a Hexagon: the CPU's tokens, whatever happens to the worker in the middle of one.
#include <gmock/gmock.h>

#include "tests/engine/app/hexagon_run_kit.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST_F(HexagonRun, has_the_tokens_of_the_cpu_and_executes_hvx_packets) {
  VITRO_NEEDS_HEXAGON();
  for (const char* model : {"q8_0", "q4_0"}) {
    const Json cpu = run("cpu0", model), hexagon = run("hexagon", model);
    ASSERT_EQ(cpu["tokens"].size(), kTokens);
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << model;
    // 7 products in each of 4 layers, for the prompt and each token but the last.
    EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7) << model;
    EXPECT_EQ(hexagon["counts"]["hexagon_requests"], kTokens * 4 * 4) << model;  // q k v, output, gate up, down
    EXPECT_GT(hexagon["counts"]["hexagon_hvx_packets"], 10000) << model;
    EXPECT_GT(hexagon["counts"]["hexagon_packets"], hexagon["counts"]["hexagon_hvx_packets"]) << model;
  }
}

TEST_F(HexagonRun, table_look_ups_have_the_same_tokens) {
  VITRO_NEEDS_HEXAGON();
  const auto run_with = [&](const char* units, const char* kernels) {
    return run_engine({{"units", units}, {"activations", "int8"}, {"kernels", kernels}}, "q4_0");
  };
  const Json cpu = run_with("cpu0", "auto"), dots = run_with("hexagon", "dot"), planes = run_with("hexagon", "lut_w4");
  EXPECT_EQ(dots["tokens"], cpu["tokens"]);
  EXPECT_EQ(planes["tokens"], cpu["tokens"]);
  EXPECT_EQ(planes["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_NE(planes["counts"]["hexagon_hvx_packets"], dots["counts"]["hexagon_hvx_packets"]);
}

// Matrices lie as the cores want them; the worker's panels are made of any layout.
TEST_F(HexagonRun, group_formats_have_the_tokens_of_the_cpu_whatever_their_layout) {
  VITRO_NEEDS_HEXAGON();
  const std::string model = quantised("w2g64z");
  const auto run_with = [&](const char* units, const char* kernels) {
    return run_engine({{"units", units}, {"activations", "int8"}, {"kernels", kernels}}, model);
  };
  const Json cpu = run_with("cpu0", "dot");
  ASSERT_EQ(cpu["tokens"].size(), kTokens);
  for (const char* kernels : {"lut_w2", "auto"}) {
    const Json hexagon = run_with("hexagon", kernels);
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << kernels;
    EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7) << kernels;
    EXPECT_GT(hexagon["counts"]["hexagon_hvx_packets"], 10000) << kernels;
  }
  const Json dot = run_with("hexagon", "dot");  // never looks up, so all products stay on the core
  EXPECT_EQ(dot["tokens"], cpu["tokens"]);
  EXPECT_EQ(dot["counts"]["hexagon_operators"], 0);
  EXPECT_THAT(dot["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("it computes w2g64z by table look-up only")));
}

// Tables of int8, and of activations in 14 bits, are other contracts, and again one for cores and worker.
TEST_F(HexagonRun, other_tables_have_the_tokens_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  int number = 0;  // few: half of the pairs, each model and each table among them
  for (const std::string& model : {std::string("q4_0"), quantised("w2g64z"), quantised("w4_channel")}) {
    ++number;
    for (const char* tables : {"int8_tables", "int16_tables"}) {
      if (number++ % all_or_few(1, 2) != 0) continue;
      const auto run_with = [&](const char* units) { return run_engine({{"units", units}, {"activations", tables}}, model); };
      const Json cpu = run_with("cpu0"), hexagon = run_with("hexagon");
      EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << model << " " << tables;
      EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7) << model << " " << tables;
    }
  }
}

// Methods of a prompt and places of spilled sums are ways to the same numbers: one copy of the weights, other work.
TEST_F(HexagonRun, methods_and_spill_buffers_change_no_token) {
  VITRO_NEEDS_HEXAGON();
  const std::string model = quantised("w2g64z");
  const auto run_with = [&](const char* unit, const char* method, const char* spill) {
    Json placement = {{"units", {unit}}};
    if (spill != nullptr) placement["spill"] = spill;
    return run_engine({{"placement", placement},
                       {"activations", "int8"},
                       {"prefill_activations", "fp16"},
                       {"products", {{"prefill", method}}}},
                      model);
  };
  const Json cpu = run_with("cpu0", "automatic", nullptr);
  ASSERT_EQ(cpu["tokens"].size(), kTokens);
  const Json multiplied = run_with("hexagon", "two_level", "tcm"), scaled = run_with("hexagon", "scaled_tables", "dram");
  for (const Json& result : {multiplied, scaled}) {
    EXPECT_EQ(result["tokens"], cpu["tokens"]);
    EXPECT_EQ(result["counts"]["hexagon_operators"], kTokens * 4 * 7);
  }
  EXPECT_GT(multiplied["counts"]["hexagon_spilled_bytes.tcm"], 0);
  EXPECT_EQ(multiplied["counts"]["hexagon_spilled_bytes.tcm"], scaled["counts"]["hexagon_spilled_bytes.dram"]);
  EXPECT_FALSE(scaled["counts"].contains("hexagon_spilled_bytes.tcm"));
  EXPECT_NE(multiplied["counts"]["hexagon_packets.vector.hvx0"], scaled["counts"]["hexagon_packets.vector.hvx0"]) << "another kernel ran";
}

TEST_F(HexagonRun, a_fault_within_a_token_costs_a_restart) {
  VITRO_NEEDS_HEXAGON();
  const Json expected = run("cpu0", "q8_0")["tokens"];
  for (const Fault fault : {Fault::die, Fault::hang, Fault::corrupt_result, Fault::wrong_sequence}) {
    const Json result = run("hexagon", "q8_0", {{kStruck, fault}});
    EXPECT_EQ(result["tokens"], expected);
    EXPECT_EQ(result["counts"]["hexagon_operators"], kTokens * 4 * 7);
    EXPECT_THAT(result["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("started again")));
  }
}

TEST_F(HexagonRun, a_second_fault_moves_the_run_to_the_cpu_with_a_note) {
  VITRO_NEEDS_HEXAGON();
  const Json expected = run("cpu0", "q8_0")["tokens"];
  for (const auto& [first, second] : {std::pair{Fault::die, Fault::corrupt_result}, {Fault::corrupt_sum, Fault::die}}) {
    const Json result = run("hexagon", "q8_0", {{kStruck, first}, {kStruck + 7, second}});
    EXPECT_EQ(result["tokens"], expected);
    EXPECT_LT(result["counts"]["hexagon_operators"], kTokens * 4 * 7);
    EXPECT_GT(result["counts"]["hexagon_operators"], 4 * 7) << "it was struck behind the prompt";
    const auto notes = result["notes"].get<std::vector<std::string>>();
    EXPECT_THAT(notes, Contains(HasSubstr("was stopped")));
    EXPECT_THAT(notes, Contains(HasSubstr("ran on the CPU instead")));
  }
}

// Operators that the unit lacks go to the core one by one: here all of them, since the weights are float16.
TEST_F(HexagonRun, what_it_lacks_stays_on_the_core) {
  VITRO_NEEDS_HEXAGON();
  const Json result = run("hexagon", "f16", {}, "float");
  EXPECT_EQ(result["tokens"], run("cpu0", "f16", {}, "float")["tokens"]);
  EXPECT_EQ(result["counts"]["hexagon_operators"], 0);
  EXPECT_THAT(result["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("the first one since it computes with integer")));
}

// Prefill and decode through the matrix unit's interface: HVX makes fp16 tiles of the weights, the model multiplies.
TEST_F(HexagonRun, the_matrix_unit_has_the_tokens_of_the_cpu_in_its_contract) {
  VITRO_NEEDS_HEXAGON();
  for (const std::string& model : {std::string("q4_0"), quantised("q4_0_tile")}) {
    const auto run_with = [&](const char* units) { return run_engine({{"units", units}, {"kernels", "hmx_q4"}}, model); };
    const Json cpu = run_with("cpu0"), hexagon = run_with("hexagon");
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << model;
    EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7) << model;
  }
}

// Float16 weights with nothing else asked for: HVX makes tiles of rows. Whatever becomes of the worker, the contract is the same, and it is
// what cores have when they are asked for it.
TEST_F(HexagonRun, float16_models_run_in_the_matrix_units_contract) {
  VITRO_NEEDS_HEXAGON();
  const Json cpu = run_engine({{"units", "cpu0"}, {"activations", "fp16"}}, "f16");
  ASSERT_EQ(cpu["tokens"].size(), kTokens);
  const auto run_with = [&](std::map<std::uint32_t, Fault> faults) { return run_engine({{"units", "hexagon"}}, "f16", std::move(faults)); };
  const Json whole = run_with({});
  EXPECT_EQ(whole["tokens"], cpu["tokens"]);
  EXPECT_EQ(whole["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_EQ(whole["counts"]["hexagon_requests"], kTokens * 4 * 4);
  EXPECT_GT(whole["counts"]["hexagon_hvx_packets"], 10000);
  const Json lost = run_with({{kStruck, Fault::die}, {kStruck + 1, Fault::corrupt_result}});
  EXPECT_EQ(lost["tokens"], cpu["tokens"]);
  EXPECT_THAT(lost["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("was stopped")));
  if (few_cases()) return;
  const Json again = run_with({{kStruck, Fault::die_computing}});
  EXPECT_EQ(again["tokens"], cpu["tokens"]);
  EXPECT_EQ(again["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_THAT(again["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("started again")));
}

// The plan of stages changes no token, whatever becomes of the worker within one of them; and the report says who did what.
TEST_F(HexagonRun, stages_have_the_tokens_of_the_cpu_with_any_plan_and_any_fault) {
  VITRO_NEEDS_HEXAGON();
  const Json cpu = run_engine({{"units", "cpu0"}, {"activations", "fp16"}}, "f16");
  ASSERT_EQ(cpu["tokens"].size(), kTokens);
  const auto run_with = [&](int threads, int buffers, std::map<std::uint32_t, Fault> faults = {}) {
    const Json engine = {{"placement", {{"units", {"hexagon"}}, {"hvx_threads", threads}, {"stage_buffers", buffers}}}};
    return run_engine(engine, "f16", std::move(faults));
  };
  const Json two = run_with(2, 2), four = run_with(4, 1);
  for (const Json& result : {two, four}) EXPECT_EQ(result["tokens"], cpu["tokens"]);
  EXPECT_GT(two["counts"]["hexagon_stage_steps"], kTokens * 4 * 7);
  EXPECT_GT(two["counts"]["hexagon_transfers_ahead"], 0);
  EXPECT_EQ(four["counts"]["hexagon_transfers_ahead"], 0);
  for (const char* thread : {"transfer.dma", "vector.hvx0", "vector.hvx1", "matrix.matrix", "control.control"}) {
    EXPECT_GT(two["counts"][std::string("hexagon_packets.") + thread], 0) << thread;
  }
  EXPECT_FALSE(two["counts"].contains("hexagon_packets.vector.hvx2"));
  EXPECT_GT(four["counts"]["hexagon_packets.vector.hvx3"], 0);
  for (const Fault fault : all_or_few(std::vector{Fault::die_in_vector, Fault::hang_in_matrix}, std::vector{Fault::hang_in_vector})) {
    const Json result = run_with(2, 2, {{4, fault}});
    EXPECT_EQ(result["tokens"], cpu["tokens"]) << static_cast<int>(fault);
    EXPECT_EQ(result["counts"]["hexagon_operators"], kTokens * 4 * 7);
  }
  const Json lost = run_with(4, 2, {{3, all_or_few(Fault::die_in_matrix, Fault::die_in_transfer)}, {4, Fault::impossible_log}});
  EXPECT_EQ(lost["tokens"], cpu["tokens"]);
  EXPECT_THAT(lost["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("log of stages was damaged")));
}

// T-MAN's division of labour: prompts through the matrix unit in fp16, answers by look-ups in int8, from one copy of the weights.
TEST_F(HexagonRun, prompts_in_tiles_and_answers_by_look_up_have_the_tokens_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  const std::string model = quantised("w4g64z");
  const auto run_with = [&](const char* units, const char* prefill) {
    return run_engine({{"units", units}, {"activations", "int8"}, {"kernels", "lut_w4"}, {"prefill_activations", prefill}}, model);
  };
  const Json cpu = run_with("cpu0", "fp16"), hexagon = run_with("hexagon", "fp16"), same = run_with("hexagon", "same");
  ASSERT_EQ(cpu["tokens"].size(), kTokens);
  EXPECT_EQ(hexagon["tokens"], cpu["tokens"]);
  EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_NE(hexagon["counts"]["hexagon_hvx_packets"], same["counts"]["hexagon_hvx_packets"]);
}

// BitNet's weights have one scale, so a prompt's products are sums of integers in the matrix unit; answers by look-up in the same panels.
TEST_F(HexagonRun, ternary_prompts_in_int8_tiles_have_the_tokens_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  const std::string model = quantised("ternary");
  const auto run_with = [&](const char* units, const char* prefill, std::map<std::uint32_t, Fault> faults = {}) {
    return run_engine({{"units", units}, {"activations", "int8"}, {"kernels", "lut_w2"}, {"prefill_activations", prefill}}, model,
                      std::move(faults));
  };
  const Json cpu = run_with("cpu0", "int8_rows"), hexagon = run_with("hexagon", "int8_rows"), same = run_with("hexagon", "same");
  ASSERT_EQ(cpu["tokens"].size(), kTokens);
  EXPECT_EQ(hexagon["tokens"], cpu["tokens"]);
  EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_NE(hexagon["counts"]["hexagon_hvx_packets"], same["counts"]["hexagon_hvx_packets"]);
  EXPECT_EQ(run_with("hexagon", "int8_rows", {{3, Fault::die}, {4, Fault::corrupt_result}})["tokens"], cpu["tokens"]);
}

// A share of the heads' projections is the Hexagon's, in graphs whose weights are bound at launch; what it lacks (attention, neurons in
// places) is computed on its own thread. The plan is the same when its worker is lost, so the tokens are, too.
TEST_F(HexagonRun, a_hybrid_engine_runs_beside_the_cores) {
  VITRO_NEEDS_HEXAGON();
  const Json engine = {{"policy", "neuron_cluster"},
                       {"units", "cpu0"},
                       {"activations", "int8"},
                       {"hybrid", {{"unit", "hexagon"}, {"splits", {{{"batch", 1}, {"hot", "25%"}, {"attention", "50%"}}}}}}};
  const Json with = run_engine(engine, "q8_0"), without = run_engine(engine, "q8_0", {{1, Fault::die}, {2, Fault::die}});
  ASSERT_EQ(with["tokens"].size(), kTokens);
  EXPECT_EQ(with["tokens"], without["tokens"]);
  EXPECT_GT(with["counts"]["hexagon_operators"], kTokens * 4);
  EXPECT_GT(with["counts"]["hexagon_hvx_packets"], 1000);
  EXPECT_EQ(without["counts"]["hexagon_operators"], 0);
  const auto notes = with["notes"].get<std::vector<std::string>>();
  EXPECT_THAT(notes, Contains(HasSubstr("that it lacks ran on the CPU")));
  EXPECT_THAT(without["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("was stopped")));
}

// The same with look-ups: attention's matrices lie for the core's look-ups, the Hexagon's share of their rows in panels of its own.
TEST_F(HexagonRun, a_hybrid_engine_looks_up_on_both_sides) {
  VITRO_NEEDS_HEXAGON();
  const std::string model = quantised("w2g64z");
  const auto run_with = [&](bool hybrid, std::map<std::uint32_t, Fault> faults) {
    Json engine = {{"policy", "neuron_cluster"}, {"units", "cpu0"}, {"activations", "int8"}, {"kernels", "lut_w2"}};
    if (hybrid) engine["hybrid"] = {{"unit", "hexagon"}, {"splits", {{{"batch", 1}, {"hot", "25%"}, {"attention", "50%"}}}}};
    return run_engine(std::move(engine), model, std::move(faults));
  };
  const Json with = run_with(true, {}), without = run_with(true, {{1, Fault::die}, {2, Fault::die}});
  ASSERT_EQ(with["tokens"].size(), kTokens);
  EXPECT_EQ(with["tokens"], without["tokens"]);
  EXPECT_GT(with["counts"]["hexagon_operators"], kTokens * 4);
  EXPECT_GT(with["counts"]["hexagon_hvx_packets"], 1000);
}

// FlashAttention with exp by table is the worker's, in prompts and step by step; its bits are those of the core in the same variant.
TEST_F(HexagonRun, attention_by_table_has_the_tokens_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  for (const char* kv : {"f32", "f16"}) {
    const auto run_with = [&](const char* units, std::map<std::uint32_t, Fault> faults = {}, const char* attention = "lut_exp") {
      const Json engine = {{"units", units}, {"activations", "int8"}, {"attention", attention}, {"kv_format", kv}, {"prefill_chunk", 3}};
      return run_engine(engine, "q8_0", std::move(faults));
    };
    const Json cpu = run_with("cpu0"), hexagon = run_with("hexagon");
    ASSERT_EQ(cpu["tokens"].size(), kTokens);
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]);
    const int products = run_with("hexagon", {}, "exact")["counts"]["hexagon_operators"];
    const int attention = hexagon["counts"]["hexagon_operators"].get<int>() - products;
    EXPECT_EQ(attention % 4, 0);  // layers; all rows of a chunk and all heads are one operator
    EXPECT_GT(attention / 4, static_cast<int>(kTokens));  // steps: several chunks of the prompt, and the tokens but the last
    if (few_cases() && kv == std::string_view("f16")) continue;
    EXPECT_EQ(run_with("hexagon", {{kStruck, Fault::corrupt_result}})["tokens"], cpu["tokens"]);
    const Json lost = run_with("hexagon", {{kStruck, Fault::die}, {kStruck + 1, Fault::die}});
    EXPECT_EQ(lost["tokens"], cpu["tokens"]);
    EXPECT_THAT(lost["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("was stopped")));
  }
}

// So has a softmax by polynomials, which the worker computes and a core looks up.
TEST_F(HexagonRun, attention_by_polynomials_has_the_tokens_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  const auto run_with = [&](const char* units, const char* attention) {
    return run_engine({{"units", units}, {"activations", "int8"}, {"attention", attention}, {"prefill_chunk", 3}}, "q8_0");
  };
  const Json exact = run_with("hexagon", "exact");
  for (const char* attention : {"exp_f16", "exp_f32"}) {
    const Json cpu = run_with("cpu0", attention), hexagon = run_with("hexagon", attention);
    ASSERT_EQ(cpu["tokens"].size(), kTokens);
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << attention;
    EXPECT_GT(hexagon["counts"]["hexagon_operators"].get<int>(), exact["counts"]["hexagon_operators"].get<int>()) << attention;
  }
}

// Wherever weights lie, and whoever computes FFNs: the products that are left are the Hexagon's, with the tokens of the core.
TEST_F(HexagonRun, weights_that_are_read_as_they_are_needed_have_the_same_tokens) {
  VITRO_NEEDS_HEXAGON();
  const Json cpu = run("cpu0", "q8_0");
  for (const char* policy : {"mmap", "neuron_cluster"}) {
    const Json engine = {{"policy", policy}, {"units", {"cpu0", "hexagon"}}, {"activations", "int8"}};
    const Json hexagon = run_engine(engine, "q8_0");
    ASSERT_EQ(hexagon["tokens"].size(), kTokens) << policy;
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << policy;
    EXPECT_GT(hexagon["counts"]["hexagon_operators"], kTokens * 4) << policy;
  }
}

}  // namespace
}  // namespace vitro::test
