// Calls of adapters beside a base: whose rows, which operands, and how much they read and write (MNN-LLM 5.5, Table 3).
#include <map>

#include "engine/graph/lora_pass.hpp"
#include "engine/ops/operands.hpp"
#include "tests/engine/transformer/call_kit.hpp"

namespace vitro {
namespace {

class BypassCallsTest : public CallBuilderTest {
 protected:
  // As start(), with adapters; sequences are one row each, the i-th with adapters[i] (0: none).
  void start_adapted(const ModelConfig& config, std::size_t units, const std::vector<LoraShape>& shapes, LoraOrder order,
                     const std::vector<std::uint32_t>& adapters) {
    const auto rows = static_cast<std::uint32_t>(adapters.size());
    start(config, rows, units);
    Machine& machine = host_->machine();
    std::vector<LoraAdapter> all;
    for (const LoraShape& shape : shapes) {
      all.push_back(phantom_adapter("a" + std::to_string(all.size() + 1), 1, shape, config_));
      all.back().set_file(machine.storage.open_phantom(GiB).value_or_throw());
    }
    bank_ = std::make_unique<LoraBank>(machine, std::move(all), LoraOptions{order, false, nullptr});
    graph_ = with_bypasses(graph_, order, [this](const Operator& product) { return bank_->rank(*product.weight, product.layer); });
    const BufferLimits limits{.rows = rows, .sampled = rows, .routed = rows * config_.experts_used, .table_width = 4};
    buffers_ = std::make_unique<Buffers>(machine.memory, graph_, config_, limits, units);
    step_.adapters = adapter_runs(adapters);
    const auto first = adapters.end() - static_cast<std::ptrdiff_t>(step_.sampled->size());
    step_.sampled_adapters = adapter_runs({first, adapters.end()});
    phases_ = lower(graph_, config_, units);
    CallOptions options{variant::kFloat};
    options.adapters = bank_.get();
    builder_ = std::make_unique<CallBuilder>(graph_, config_, weights_, *residency_, *buffers_, *kv_, std::move(options));
  }

  // Of one bypass in the first layer: its calls, whose matrices are these.
  std::vector<KernelCall> calls_of(Role role, std::uint32_t adapter) const {
    const LoraBank::Pair* pair = bank_->find(adapter, role, 0);
    std::vector<KernelCall> found;
    bool product_follows = false;
    for (const Call& c : calls()) {
      const auto reads = [&](const View& matrix) {
        return std::ranges::any_of(c.call.in, [&](const View& in) {
          return in.memory.id() == matrix.memory.id() && in.offset >= matrix.offset &&
                 in.offset < matrix.offset + row_bytes(matrix.format, matrix.shape[1]) * matrix.shape[0];
        });
      };
      if (reads(pair->a) || reads(pair->b) || product_follows) found.push_back(c.call);
      product_follows = c.call.is<ops::Accumulate>() && reads(pair->a);
    }
    return found;
  }

  void TearDown() override {
    builder_.reset();
    bank_.reset();
  }

  std::unique_ptr<LoraBank> bank_;
};

const std::vector<Role> kAllRoles{Role::attn_q,   Role::attn_k, Role::attn_v,   Role::attn_output,
                                  Role::ffn_gate, Role::ffn_up, Role::ffn_down, Role::output};

TEST_F(BypassCallsTest, every_call_keeps_its_contract_in_both_orders) {
  for (const LoraOrder order : {LoraOrder::a_bx, LoraOrder::ab_x}) {
    for (std::size_t units = 1; units <= 3; ++units) {
      start_adapted(tiny_dense(), units, {{4, 8, kAllRoles, Format::f32}, {6, 0, {Role::attn_v, Role::ffn_down}, Format::f16}}, order,
                    {1, 1, 0, 2, 2, 2});
      for (const Call& c : calls()) EXPECT_NO_THROW(check_call(c.call)) << describe(c.call);
    }
  }
}

// Of each adapted matrix: rows of its adapter's sequences, each column once whatever units there are, and no other row.
TEST_F(BypassCallsTest, rows_get_their_own_adapter_and_others_none) {
  for (const LoraOrder order : {LoraOrder::a_bx, LoraOrder::ab_x}) {
    for (std::size_t units = 1; units <= 3; ++units) {
      start_adapted(tiny_dense(), units, {{4, 8, {Role::attn_v}, Format::f32}, {6, 0, {Role::attn_v, Role::ffn_up}, Format::f16}}, order,
                    {1, 1, 0, 2, 1});
      const auto covered = [&](Role role, std::uint32_t adapter, std::uint32_t rows_in_step) {
        std::map<std::uint32_t, std::uint32_t> columns;  // by row of the step
        for (const KernelCall& call : calls_of(role, adapter)) {
          if (!call.is<ops::AddProduct>() || !call.get<ops::AddProduct>().continues) continue;
          const Range slice = sliced(call, call.in[0].shape[0]);
          const View whole = buffers_->view(role == Role::attn_v ? "v" : "up", 0, rows_in_step);
          const auto first = static_cast<std::uint32_t>((call.out[0].offset - whole.offset) / (4 * whole.shape[1]));
          for (std::uint32_t r = 0; r < call.out[0].shape[0]; ++r) columns[first + r] += slice.count;
        }
        return columns;
      };
      const std::uint32_t v = config_.kv_width(), up = config_.ffn;
      EXPECT_EQ(covered(Role::attn_v, 1, 5), (std::map<std::uint32_t, std::uint32_t>{{0, v}, {1, v}, {4, v}}));
      EXPECT_EQ(covered(Role::attn_v, 2, 5), (std::map<std::uint32_t, std::uint32_t>{{3, v}}));
      EXPECT_EQ(covered(Role::ffn_up, 2, 5), (std::map<std::uint32_t, std::uint32_t>{{3, up}}));
    }
  }
}

// Activations of [h, h], matrices of [h, r]: what both orders compute, and what they access (MNN-LLM Table 3; mnn_lora_cost). Qwen2-7B has
// h = 3584, and r = 8 in the paper's example, which gives 0.46 % (mnn_lora_memory_ratio: 0.5 %).
TEST_F(BypassCallsTest, the_two_orders_compute_and_access_what_table_3_says) {
  const auto counted = [&](std::uint32_t h, std::uint32_t r, LoraOrder order) {
    ModelConfig config = tiny_dense();
    config.layers = 1, config.width = h, config.heads = config.kv_heads = 8, config.head_dim = config.rope.dims = h / 8;
    start_adapted(config, 1, {{r, 0, {Role::attn_q}, Format::f32}}, order, std::vector<std::uint32_t>(h, 1));
    EXPECT_EQ(calls_of(Role::attn_q, 1).size(), 2u);
    BypassCounts counts;
    for (const UnitQueues& phase : queues()) count_bypasses(phase, counts);
    return counts;
  };
  for (const auto& [h, r] : {std::pair<std::uint64_t, std::uint64_t>{64, 4}, {256, 8}, {3584, 8}, {3584, 64}}) {
    const auto original = counted(static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(r), LoraOrder::ab_x);
    const auto reordered = counted(static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(r), LoraOrder::a_bx);
    EXPECT_EQ(original.macs, r * h * h + h * h * h);
    EXPECT_EQ(original.accesses, 2 * (r * h * h + h * h + h * h * h));
    EXPECT_EQ(reordered.macs, 2 * r * h * h);
    EXPECT_EQ(reordered.accesses, 4 * r * h * h + h * h + r * h);
    if (h == 3584 && r == 8) {
      EXPECT_NEAR(100.0 * static_cast<double>(reordered.accesses) / static_cast<double>(original.accesses), 0.46, 0.005);
    }
  }
}

}  // namespace
}  // namespace vitro
