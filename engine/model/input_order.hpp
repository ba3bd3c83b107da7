// In which order the columns of a product's matrix stand where it is not that of its inputs. A block format gives a scale to a run of
// columns. GPTQ's act order (desc_act) gives one to inputs from anywhere, so a converter puts the columns of each group side by side and
// says with a tensor beside the matrix which input each of them multiplies: column j of "blk.3.attn_q.weight" multiplies input order[j]
// of "blk.3.attn_q.order", int32 [columns], a permutation.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/role.hpp"

namespace vitro {

class Gguf;
struct ModelConfig;

// A product with such an order.
struct InputOrder {
  std::int16_t layer = -1;
  Role product{};
  Role same_as{};  // the first product of the layer that has the same input and the same order: often itself
};

std::optional<Role> order_of(Role product);   // the role of its order; none: products of this role have none
std::string order_name(std::string_view matrix);  // "blk.3.attn_q.weight" -> "blk.3.attn_q.order"
bool is_order_name(std::string_view tensor);

bool has_order(const std::vector<InputOrder>& orders, int layer, Role product);

// Of the matrix of this name; empty: its columns stand as its inputs do. Throws ConfigError that names file and tensor for one that is no
// permutation of the columns.
std::vector<std::uint32_t> read_input_order(const Gguf& gguf, std::string_view matrix);

// Of all products that may have one: those of attention of every layer, of FFNs of layers without experts, and the output's, each with a
// matrix of its own. Reads them all.
std::vector<InputOrder> input_orders(const Gguf& gguf, const ModelConfig& config);

}  // namespace vitro
