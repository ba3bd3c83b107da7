#include "engine/app/read_workload.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

constexpr std::int64_t kMaxTokens = 1 << 20;
constexpr std::size_t kMaxBatch = 1024;

MatmulWorkload read_matmul_workload(Reader reader) {
  MatmulWorkload products;
  for (Reader& shape : reader.maps("shapes")) {
    products.shapes.push_back(
        {static_cast<std::uint32_t>(shape.integer("columns", 1, 1 << 24)), static_cast<std::uint32_t>(shape.integer("depth", 1, 1 << 24))});
    shape.finish();
  }
  if (products.shapes.empty()) reader.fail("shapes", "is empty (expected entries such as {columns: 4096, depth: 4096})");
  products.rows = static_cast<std::uint32_t>(reader.integer("rows", 1, 1 << 20, 1));
  products.repeat = static_cast<std::uint32_t>(reader.integer("repeat", 1, 64, 16));
  const std::string name = reader.text("format", "q4_0");
  const std::optional<Format> format = format_by_name(name);
  if (!format || !format->is_for_weights()) {
    reader.fail("format", fmt::format("\"{}\" is not a weight format (expected one of: {})", name, weight_format_names()));
  }
  products.format = *format;
  for (const MatmulWorkload::Shape& shape : products.shapes) {
    if (can_store(products.format, shape.columns, shape.depth)) continue;
    if (stored_layout(products.format) == Layout::rows) {
      reader.fail("shapes", fmt::format("a depth of {} is not a multiple of the block of {}", shape.depth, name));
    }
    reader.fail("shapes", fmt::format("{} columns of a depth of {} are no whole groups of {} (expected multiples of {} and {})",
                                      shape.columns, shape.depth, name, kStripRows, kStripColumns));
  }
  reader.finish();
  return products;
}

SoftmaxWorkload read_softmax_workload(Reader reader) {
  constexpr Exponential kExponentials[] = {Exponential::table, Exponential::f16, Exponential::f32};
  SoftmaxWorkload softmax;
  softmax.rows = static_cast<std::uint32_t>(reader.integer("rows", 1, 4096, 1));
  softmax.columns = static_cast<std::uint32_t>(reader.integer("columns", 1, 1 << 20));
  softmax.repeat = static_cast<std::uint32_t>(reader.integer("repeat", 1, 1 << 20, 1024));
  std::vector<std::string> names;
  for (const Exponential exponential : kExponentials) names.emplace_back(to_string(exponential));
  const std::string name = reader.choice("exp", names, "table");
  softmax.exponential = kExponentials[std::find(names.begin(), names.end(), name) - names.begin()];
  reader.finish();
  return softmax;
}

// A list of lengths stands for a batch of as many sequences, which end one by one.
void read_lengths(Reader& reader, Workload& workload) {
  std::vector<std::int64_t> lengths;
  if (reader.has("output_tokens")) {
    lengths = reader.integers("output_tokens", 1, kMaxTokens);
  } else {
    lengths = {reader.integer("output_tokens", 1, kMaxTokens, 32)};
  }
  if (lengths.empty() || lengths.size() > kMaxBatch) {
    reader.fail("output_tokens", fmt::format("has {} lengths (expected 1 to {})", lengths.size(), kMaxBatch));
  }
  const auto sequences = static_cast<std::int64_t>(lengths.size());
  const auto batch = static_cast<std::size_t>(reader.integer("batch", 1, std::int64_t{kMaxBatch}, sequences));
  if (lengths.size() == 1) lengths.resize(batch, lengths[0]);
  if (lengths.size() != batch) {
    reader.fail("batch",
                fmt::format("is {}, but output_tokens has {} lengths (expected one length for each sequence)", batch, lengths.size()));
  }
  workload.lengths.assign(lengths.begin(), lengths.end());
  workload.batch = static_cast<std::uint32_t>(batch);
  workload.output_tokens = *std::max_element(workload.lengths.begin(), workload.lengths.end());
}

void read_warmup(Reader& reader, Workload& workload) {
  workload.warmup_tokens = static_cast<std::uint32_t>(reader.integer("warmup_tokens", 0, kMaxTokens, 0));
  if (workload.warmup_tokens == 0) return;
  if (reader.has("scaling")) {
    reader.fail("warmup_tokens", fmt::format("can not be combined with {} (expected one of the two)", reader.name_of("scaling")));
  }
  if (workload.warmup_tokens + 1 >= workload.output_tokens) {
    reader.fail("warmup_tokens", fmt::format("is {}, which leaves none of {}: {} to measure (expected {} or more of these)",
                                             workload.warmup_tokens, reader.name_of("output_tokens"), workload.output_tokens,
                                             std::uint64_t{workload.warmup_tokens} + 2));
  }
}

void read_kv_files(Reader& reader, const Workload& workload, bool numerics) {
  for (const auto& [key, path] : {std::pair("save_kv", workload.save_kv), std::pair("restore_kv", workload.restore_kv)}) {
    if (path.empty()) continue;
    if (!numerics) reader.fail(key, "needs keys and values, but the run computes none (expected engine.function: compute)");
    if (workload.batch > 1 || workload.requests.size() > 1 || reader.has("scaling")) {
      reader.fail(key, fmt::format("is for one sequence (expected {}: 1, no {}, and one request)", reader.name_of("batch"),
                                   reader.name_of("scaling")));
    }
  }
}

// One prompt, of two ways to give it. Throws where both are there, and where neither is unless it is `optional`.
void read_prompt(Reader& reader, std::optional<std::string>& prompt, std::uint32_t& tokens, bool optional) {
  if (optional && !reader.has("prompt") && !reader.has("prompt_tokens")) return;
  prompt.reset();
  if (reader.has("prompt")) prompt = reader.text("prompt");
  tokens = static_cast<std::uint32_t>(reader.integer("prompt_tokens", 1, kMaxTokens, 0));
  if (prompt.has_value() == (tokens > 0)) {
    const std::string_view expected = "expected exactly one of prompt (a text) and prompt_tokens (a count)";
    prompt ? reader.fail("prompt_tokens", expected) : reader.fail("prompt", fmt::format("is missing ({})", expected));
  }
}

// One name for all sequences, or a list with one for each.
std::vector<std::uint32_t> read_adapters(Reader& reader, const std::vector<std::string>& names, std::uint32_t batch) {
  std::vector<std::uint32_t> adapters;
  const auto number_of = [&](const Node& name) {
    const auto found = name.is_scalar() ? std::ranges::find(names, name.text()) : names.end();
    if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
    fail_at(name.origin(), reader.name_of("adapter"),
            fmt::format("{} is no adapter of engine.lora (expected one of: {})", name.is_scalar() ? "\"" + name.text() + "\"" : "an entry",
                        fmt::join(names, ", ")));
  };
  const Node* given = reader.raw("adapter");
  if (given == nullptr || given->is_null()) return adapters;
  if (!given->is_list()) return std::vector<std::uint32_t>(batch, number_of(*given));
  for (const Node& name : given->items()) adapters.push_back(number_of(name));
  if (adapters.size() == batch) return adapters;
  reader.fail("adapter",
              fmt::format("has {} names for a batch of {} (expected one for each sequence, or one for all)", adapters.size(), batch));
}

// Names of sequences that requests keep for later ones. `earlier` are those before it; one that goes on has no prompt but its own.
void read_kept(Reader& entry, Request& request, const std::vector<Request>& earlier, std::uint32_t batch) {
  request.goes_on = entry.text("continue", "");
  request.keep_as = entry.text("keep_as", "");
  for (const auto& [key, name] : {std::pair{"continue", &request.goes_on}, {"keep_as", &request.keep_as}}) {
    if (entry.has(key) && name->empty()) entry.fail(key, "is empty (expected the name of a kept sequence)");
  }
  if (!request.keep_as.empty() && batch > 1) {
    entry.fail("keep_as", fmt::format("is for one sequence, but the batch has {} (expected workload.batch: 1)", batch));
  }
  if (request.goes_on.empty()) return;
  const auto kept = std::find_if(earlier.rbegin(), earlier.rend(), [&](const Request& r) { return r.keep_as == request.goes_on; });
  if (kept == earlier.rend()) {
    entry.fail("continue", fmt::format("\"{}\" is kept by no request before it (expected a name that an earlier entry gives with keep_as)",
                                       request.goes_on));
  }
  const std::uint32_t adapter = kept->adapters.empty() ? 0 : kept->adapters.front();
  const auto same = [&](std::uint32_t other) { return other == adapter; };
  if (!std::ranges::all_of(request.adapters, same) || (request.adapters.empty() && adapter != 0)) {
    entry.fail("adapter", fmt::format("is not that of \"{}\", after whose keys it goes on (expected the same)", request.goes_on));
  }
  if (!entry.has("prompt") && !entry.has("prompt_tokens")) {
    request.prompt.reset();
    request.prompt_tokens = 0;
  }
}

// Each has what the workload says, where it says nothing itself.
std::vector<Request> read_requests(Reader& reader, const Workload& workload, const std::vector<std::string>& names) {
  Request first;
  first.prompt = workload.prompt;
  first.prompt_tokens = workload.prompt_tokens;
  first.adapters = read_adapters(reader, names, workload.batch);
  if (!reader.has("requests")) return {first};
  std::vector<Request> requests;
  for (Reader& entry : reader.maps("requests")) {
    Request request = first;
    const bool has_one = first.prompt || first.prompt_tokens > 0 || !workload.restore_kv.empty() || entry.has("continue");
    read_prompt(entry, request.prompt, request.prompt_tokens, has_one);
    if (entry.has("adapter")) request.adapters = read_adapters(entry, names, workload.batch);
    read_kept(entry, request, requests, workload.batch);
    entry.finish();
    requests.push_back(std::move(request));
  }
  if (requests.empty()) reader.fail("requests", "is empty (expected entries such as {adapter: NAME})");
  return requests;
}

}  // namespace

Workload read_workload(Reader reader, bool numerics, const std::vector<std::string>& adapters) {
  Workload workload;
  if (reader.has("products") && reader.has("softmax"))
    reader.fail("softmax", "can not be combined with workload.products (expected one of the two)");
  if (reader.has("products") || reader.has("softmax")) {
    if (std::optional<Reader> products = reader.optional_child("products")) {
      workload.products = read_matmul_workload(std::move(*products));
    } else {
      workload.softmax = read_softmax_workload(std::move(*reader.optional_child("softmax")));
    }
    workload.prompt_tokens = 1;
    workload.seed = static_cast<std::uint64_t>(reader.integer("seed", 0, std::int64_t{1} << 62, 1));
    reader.finish();
    return workload;
  }
  workload.save_kv = reader.text("save_kv", "");
  workload.restore_kv = reader.text("restore_kv", "");
  read_prompt(reader, workload.prompt, workload.prompt_tokens, !workload.restore_kv.empty() || reader.has("requests"));
  read_lengths(reader, workload);
  workload.requests = read_requests(reader, workload, adapters);
  workload.kept_in = reader.choice("kept_in", {"dram", "flash"}, "dram") == "flash" ? KeptIn::flash : KeptIn::dram;
  read_warmup(reader, workload);
  workload.stop_at_eos = reader.boolean("stop_at_eos", true);
  workload.seed = static_cast<std::uint64_t>(reader.integer("seed", 0, std::int64_t{1} << 62, 1));
  Reader sampling = reader.section("sampling");
  workload.sampling.temperature = static_cast<float>(sampling.number("temperature", 0, 100, 0));
  workload.sampling.top_k = static_cast<std::uint32_t>(sampling.integer("top_k", 0, 1 << 20, 0));
  workload.sampling.top_p = static_cast<float>(sampling.number("top_p", 0, 1, 1));
  sampling.finish();
  read_kv_files(reader, workload, numerics);
  if (std::optional<Reader> scaling = reader.optional_child("scaling")) {
    if (workload.batch > 1) reader.fail("batch", fmt::format("can not be combined with {} (expected one of the two)", scaling->path()));
    if (workload.requests.size() > 1) {
      reader.fail("requests", fmt::format("can not be combined with {} (expected one of the two)", scaling->path()));
    }
    if (!workload.requests.front().keep_as.empty()) {
      reader.fail("requests", fmt::format("keep_as is for one sequence (expected no {})", scaling->path()));
    }
    workload.scaling = read_scaling(std::move(*scaling), numerics);
    if (numerics && workload.scaling->samples > 1 && workload.sampling.temperature == 0) {
      reader.fail("scaling", fmt::format("asks for {} samples, but with {}: 0 they are all alike (expected a temperature above 0)",
                                         workload.scaling->samples, reader.name_of("sampling.temperature")));
    }
  }
  reader.finish();
  return workload;
}

}  // namespace vitro
