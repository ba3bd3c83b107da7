#include "engine/parts/lora/lora_bank.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr Bytes kRequest = MiB;

Task<void> read_all(Machine* machine, Extent extent, Lease into, std::string name) {
  const Bytes step = std::min(kRequest, machine->storage.caps().max_transfer);
  for (Bytes done = 0; done < extent.length; done += step) {
    ReadRequest request;
    request.from = {extent.file, extent.offset + done, std::min(step, extent.length - done)};
    request.into = into;
    request.into_offset = done;
    request.issuer = machine->units.front()->caps().id;
    request.pattern = Pattern::sequential;
    const IoResult result = co_await machine->storage.read(std::move(request));
    if (!result.status.ok()) throw RunError(fmt::format("loading adapter {}: {}", name, result.status.message));
  }
}

}  // namespace

std::vector<AdapterRun> adapter_runs(const std::vector<std::uint32_t>& adapters) {
  std::vector<AdapterRun> runs;
  for (std::uint32_t first = 0, end = 0; first < adapters.size(); first = end) {
    while (end < adapters.size() && adapters[end] == adapters[first]) ++end;
    if (adapters[first] > 0) runs.push_back({adapters[first], first, end - first});
  }
  return runs;
}

View rows_of_run(View view, const AdapterRun& run, std::uint32_t width) {
  view.offset += view.format.block_bytes() * run.first * view.shape[1];
  view.shape = {run.count, width == 0 ? view.shape[1] : width, 0};
  return view;
}

LoraBank::LoraBank(Machine& machine, std::vector<LoraAdapter> adapters, const LoraOptions& options) : machine_(machine), options_(options) {
  loaded_.reserve(adapters.size());
  for (LoraAdapter& adapter : adapters) {
    Loaded& loaded = loaded_.emplace_back();
    loaded.adapter = options_.by_neuron ? adapter.with_halves() : std::move(adapter);
    place(loaded);
  }
  if (options_.order == LoraOrder::ab_x) lease_products();
}

Lease LoraBank::lease(Bytes bytes, Region region, std::string_view what) const {
  Result<Lease> lease = machine_.memory.lease(bytes, Placement::dram, region);
  if (!lease.ok()) throw ConfigError(fmt::format("memory.budget: no room for {} of engine.lora: {}", what, lease.status().message));
  return std::move(lease).value();
}

bool LoraBank::is_transposed(const Weight& matrix, bool a) const {
  return options_.by_neuron && (a || options_.order == LoraOrder::ab_x) && matrix.role == Role::ffn_down;
}

// Rows of neurons follow the order in which these lie, if they have one.
bool LoraBank::is_reordered(const Weight& matrix, bool a) const {
  const bool rows_are_neurons = !a && (matrix.role == Role::ffn_gate || matrix.role == Role::ffn_up);
  return options_.by_neuron && rows_are_neurons && options_.neurons != nullptr && !options_.neurons->empty();
}

View LoraBank::own_floats(const Weight& matrix, bool transposed) {
  View view;
  view.memory = lease(Bytes{4} * matrix.rows * matrix.columns, Region::adapter, matrix.name);
  view.shape = transposed ? std::array{matrix.columns, matrix.rows, 0u} : std::array{matrix.rows, matrix.columns, 0u};
  return view;
}

View LoraBank::laid_out(const Loaded& loaded, const Weight& matrix) const {
  View view;
  view.memory = loaded.memory;
  view.offset = matrix.extent.offset - loaded.adapter.extent().offset / kPageSize * kPageSize;
  view.shape = {matrix.rows, matrix.columns, 0};
  view.format = matrix.format;
  return view;
}

// B A is added up from rows of A weighted by B, and weights of a sum are f32.
void LoraBank::place(Loaded& loaded) {
  const Extent extent = loaded.adapter.extent();
  const Bytes begin = extent.offset / kPageSize * kPageSize;
  loaded.memory = lease(extent.offset + extent.length - begin, Region::adapter, fmt::format("adapter {}", loaded.adapter.name));
  for (const auto& [key, matrices] : loaded.adapter.matrices) {
    const bool multiplied = options_.order == LoraOrder::ab_x && matrices.b.format != Format::f32;
    Pair& pair = loaded.pairs[key];
    const bool turned = is_transposed(matrices.b, false);
    pair.scale = turned ? 1 : matrices.scale;
    pair.a = is_transposed(matrices.a, true) ? own_floats(matrices.a, true) : laid_out(loaded, matrices.a);
    pair.b = multiplied || turned || is_reordered(matrices.b, false) ? own_floats(matrices.b, turned) : laid_out(loaded, matrices.b);
  }
}

void LoraBank::lease_products() {
  std::map<Role, Bytes> sizes;
  for (const Loaded& loaded : loaded_) {
    for (const auto& [key, m] : loaded.adapter.matrices) sizes[key.first] = std::max(sizes[key.first], Bytes{4} * m.b.rows * m.a.columns);
  }
  for (const auto& [role, bytes] : sizes) products_[role] = lease(bytes, Region::activation, fmt::format("B A of {}", to_string(role)));
}

Task<void> LoraBank::load() {
  for (const Loaded& loaded : loaded_) {
    Extent extent = loaded.adapter.extent();
    const Bytes ahead = extent.offset % kPageSize;
    extent.offset -= ahead;
    extent.length += ahead;
    machine_.trace.decision("load", loaded.adapter.name, "adapter");
    co_await read_all(&machine_, extent, loaded.memory, loaded.adapter.name);
    if (loaded.memory.data() == nullptr) continue;  // a phantom run
    for (const auto& [key, matrices] : loaded.adapter.matrices) {
      const Pair& pair = loaded.pairs.at(key);
      const float scale = is_transposed(matrices.b, false) ? matrices.scale : 1;
      if (pair.a.memory.id() != loaded.memory.id()) rearrange(loaded, matrices.a, true, 1, pair.a);
      if (pair.b.memory.id() != loaded.memory.id()) rearrange(loaded, matrices.b, false, scale, pair.b);
    }
  }
}

// As floats, by neuron where the matrix is used so: transposed, or its rows in the order in which the neurons lie.
void LoraBank::rearrange(const Loaded& loaded, const Weight& matrix, bool a, float scale, const View& into) const {
  const View from = laid_out(loaded, matrix);
  const bool transposed = is_transposed(matrix, a);
  const bool ordered = ((transposed && a) || is_reordered(matrix, a)) && options_.neurons != nullptr && !options_.neurons->empty();
  const auto ids = ordered ? options_.neurons->of(static_cast<std::uint32_t>(matrix.layer), 0) : std::span<const std::uint32_t>();
  const auto id_at = [&](std::uint32_t place) { return ids.empty() ? place : ids[place]; };
  const float* const gains = transposed && a && options_.gains ? options_.gains(matrix.layer) : nullptr;
  const Bytes stride = row_bytes(matrix.format, matrix.columns);
  std::vector<float> row(matrix.columns);
  for (std::uint32_t r = 0; r < matrix.rows; ++r) {
    dequantise_row(matrix.format, from.data() + (transposed ? r : id_at(r)) * stride, row.data(), row.size());
    for (std::uint32_t c = 0; c < matrix.columns; ++c) {
      into.as<float>()[transposed ? std::size_t{c} * matrix.rows + r : std::size_t{r} * matrix.columns + c] =
          scale * (gains != nullptr ? gains[id_at(c)] : 1) * row[transposed ? id_at(c) : c];
    }
  }
}

const LoraBank::Pair* LoraBank::find(std::uint32_t adapter, Role role, int layer) const {
  const auto& pairs = loaded_.at(adapter - 1).pairs;
  const auto found = pairs.find({role, layer});
  return found == pairs.end() ? nullptr : &found->second;
}

std::uint32_t LoraBank::rank(Role role, int layer) const {
  std::uint32_t most = 0;
  for (const Loaded& loaded : loaded_) {
    if (const LoraMatrices* matrices = loaded.adapter.find(role, layer)) most = std::max(most, matrices->rank());
  }
  return most;
}

std::uint32_t LoraBank::rank(Role role) const {
  std::uint32_t most = 0;
  for (const Loaded& loaded : loaded_) {
    for (const auto& [key, matrices] : loaded.adapter.matrices) most = key.first == role ? std::max(most, matrices.rank()) : most;
  }
  return most;
}

View LoraBank::product(Role role, int layer) const {
  View view;
  view.memory = products_.at(role);
  for (const Loaded& loaded : loaded_) {
    if (const LoraMatrices* m = loaded.adapter.find(role, layer)) {
      view.shape = is_transposed(m->b, false) ? std::array{m->a.columns, m->b.rows, 0u} : std::array{m->b.rows, m->a.columns, 0u};
    }
  }
  return view;
}

}  // namespace vitro
