#include "engine/model/input_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "engine/model/gguf.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/weights.hpp"

namespace vitro {
namespace {

constexpr std::string_view kWeight = ".weight", kOrder = ".order";

enum class Input : std::uint8_t { attention, attended, ffn, hidden, head };

struct Product {
  Role matrix, order;
  Input input;
};

// As they are computed. No product but these has an order.
constexpr std::array<Product, 8> kProducts{{
    {Role::attn_q, Role::attn_q_order, Input::attention},
    {Role::attn_k, Role::attn_k_order, Input::attention},
    {Role::attn_v, Role::attn_v_order, Input::attention},
    {Role::attn_output, Role::attn_output_order, Input::attended},
    {Role::ffn_gate, Role::ffn_gate_order, Input::ffn},
    {Role::ffn_up, Role::ffn_up_order, Input::ffn},
    {Role::ffn_down, Role::ffn_down_order, Input::hidden},
    {Role::output, Role::output_order, Input::head},
}};

}  // namespace

std::optional<Role> order_of(Role product) {
  const auto* const found = std::ranges::find(kProducts, product, &Product::matrix);
  return found == kProducts.end() ? std::nullopt : std::optional(found->order);
}

std::string order_name(std::string_view matrix) {
  return fmt::format("{}{}", matrix.ends_with(kWeight) ? matrix.substr(0, matrix.size() - kWeight.size()) : matrix, kOrder);
}

bool is_order_name(std::string_view tensor) { return tensor.ends_with(kOrder); }

bool has_order(const std::vector<InputOrder>& orders, int layer, Role product) {
  return std::ranges::any_of(orders, [&](const InputOrder& order) { return order.layer == layer && order.product == product; });
}

std::vector<std::uint32_t> read_input_order(const Gguf& gguf, std::string_view matrix) {
  const std::string name = order_name(matrix);
  const TensorInfo *columns = gguf.find_tensor(matrix), *tensor = gguf.find_tensor(name);
  if (columns == nullptr || tensor == nullptr) return {};
  const std::uint64_t n = columns->columns();
  if (tensor->format != Format::index32) {
    gguf.fail(name, fmt::format("is in {} (expected int32: which input each column of {} multiplies)", to_string(tensor->format), matrix));
  }
  if (tensor->rows() != 1 || tensor->columns() != n) {
    gguf.fail(name, fmt::format("has {} entries (expected {}, one for each column of {})", tensor->rows() * tensor->columns(), n, matrix));
  }
  std::vector<std::uint32_t> order(n);
  gguf.read(*tensor, 0, std::as_writable_bytes(std::span(order)));
  std::vector<bool> seen(n);
  for (std::size_t j = 0; j < n; ++j) {
    if (order[j] >= n) {
      gguf.fail(name, fmt::format("entry {} is {} (expected 0 to {})", j, static_cast<std::int32_t>(order[j]), n - 1));
    }
    if (seen[order[j]]) gguf.fail(name, fmt::format("entry {} is {}, which is there already (expected each input once)", j, order[j]));
    seen[order[j]] = true;
  }
  return order;
}

std::vector<InputOrder> input_orders(const Gguf& gguf, const ModelConfig& config) {
  struct Read {
    InputOrder of;
    Input input;
    std::vector<std::uint32_t> order;
  };
  std::vector<InputOrder> found;
  if (std::ranges::none_of(gguf.tensors(), is_order_name, &TensorInfo::name)) return found;
  std::vector<Read> of_layer;  // those that differ
  for (const Weight& weight : weights_of(config)) {
    const auto* const product = std::ranges::find(kProducts, weight.role, &Product::matrix);
    if (product == kProducts.end() || (is_ffn(weight.role) && config.has_experts(weight.layer))) continue;
    std::vector<std::uint32_t> order = read_input_order(gguf, weight.name);
    if (order.empty()) continue;
    if (!of_layer.empty() && of_layer.front().of.layer != weight.layer) of_layer.clear();
    const auto same = std::ranges::find_if(of_layer, [&](const Read& r) { return r.input == product->input && r.order == order; });
    found.push_back({weight.layer, weight.role, same == of_layer.end() ? weight.role : same->of.product});
    if (same == of_layer.end()) of_layer.push_back({found.back(), product->input, std::move(order)});
  }
  return found;
}

}  // namespace vitro
