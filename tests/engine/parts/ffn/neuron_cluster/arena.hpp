// What tests of real bytes share: a store of neurons in a file, and whether rows lie where kernels are told.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/base/file.hpp"
#include "engine/base/rng.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {

// A file in which no two cache lines are alike.
class NeuronFile {
 public:
  explicit NeuronFile(Bytes size) : path_(testing::TempDir() + "/vitro_neuron_store_" + std::to_string(::getpid())), bytes(size) {
    Rng rng(7);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    OutputFile file(path_);
    file.write(bytes);
    file.commit();
  }
  ~NeuronFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;

 public:
  std::vector<std::byte> bytes;
};

struct Shape {
  Format format;
  std::uint32_t neurons, width;
  BundleForm form;
  bool two_phases = true;
};

inline std::string describe(const Shape& shape) {
  return std::string(to_string(shape.form)) + " " + std::string(to_string(shape.format)) + " " + std::to_string(shape.width) +
         (shape.two_phases ? "" : ", read whole");
}

// Two layers of a model in a file, half of their neurons in DRAM.
class Arena {
 public:
  static constexpr std::uint32_t kLayers = 2;

  Arena(const Shape& shape, std::uint64_t seed)
      : layout(bundle_layout(shape.format, shape.neurons, shape.width, shape.form)),
        file(kLayers * layout.bytes()),
        machine_(spec(seed), function_, trace_) {
    const FileId id = machine().storage.open(file.path()).value_or_throw();
    std::vector<Weight> weights;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      Weight weight;
      weight.name = "ffn" + std::to_string(layer);
      weight.role = Role::ffn_bundle;
      weight.layer = static_cast<std::int16_t>(layer);
      weight.rows = shape.neurons, weight.columns = shape.width;
      weight.format = layout.format;
      weight.form = shape.form;
      weight.extent = {id, layer * layout.bytes(), layout.bytes()};
      weights.push_back(std::move(weight));
    }
    weights_ = WeightStore(std::move(weights));
    NeuronStoreOptions options;
    options.ffn_in_dram = 0.5;
    options.staging = 40 * layout.block;
    options.two_phases = shape.two_phases;
    store.emplace(machine(), weights_, options);
    machine_.run(store->load(UnitId{0}));
  }

  Machine& machine() { return machine_.machine(); }
  void run(Task<void> task) { machine_.run(std::move(task)); }

  // Rows of a block that are in the arena as they are in flash.
  bool holds(std::uint32_t block, std::uint32_t slot, NeuronStore::Matrix matrix) const {
    const std::uint32_t ffn = block / layout.blocks(), in_ffn = block % layout.blocks();
    const Bytes row = row_bytes(layout.format, layout.width);
    const Bytes rows[] = {layout.gate, layout.up, layout.down};
    const auto m = static_cast<std::uint32_t>(matrix);
    const View view = store->view(matrix);
    for (std::uint32_t i = 0; i < layout.per_block; ++i) {
      const std::uint32_t neuron = in_ffn * layout.per_block + i;
      if (neuron >= layout.neurons) break;
      const Bytes piece = ((layout.stripes > 1 ? m : 0) * layout.blocks() + in_ffn) * layout.piece();
      const std::byte* flash = file.bytes.data() + ffn * layout.bytes() + piece + layout.within_block(neuron) + rows[m];
      const std::byte* dram = store->arena().data() + view.offset + store->place(neuron, slot) * kRowOffsetUnit;
      if (!std::equal(flash, flash + row, dram)) return false;
    }
    return true;
  }

  const BundleLayout layout;
  const NeuronFile file;
  std::optional<NeuronStore> store;
  std::uint32_t waited = 0;  // reads whose copy was another unit's

 private:
  static VirtualMachineSpec spec(std::uint64_t seed) {
    VirtualMachineSpec spec;
    UnitCaps caps;
    caps.name = "cpu0";
    spec.units.push_back(caps);
    caps.id = UnitId{1};
    caps.name = "cpu1";
    spec.units.push_back(caps);
    spec.shuffle = seed;
    spec.read_price = [](const ReadRequest& r) { return Picoseconds(static_cast<std::int64_t>(1 + r.from.length % 7)); };
    return spec;
  }
  ComputeFunction function_;
  NullTrace trace_;
  VirtualMachine machine_;
  WeightStore weights_;
};

inline const Shape kShapes[] = {
    {Format::q4_0, 96, 4096, BundleForm::scales_resident},
    {Format::q4_0, 96, 4096, BundleForm::scales_resident, false},
    {Format::q4_0, 50, 5120, BundleForm::scales_resident},
    {Format::q4_0, 50, 3584, BundleForm::scales_resident},
    {Format::q4_0, 60, 2048, BundleForm::scales_resident},
    {Format::q4_0, 60, 4096, BundleForm::scales_inline},
    {Format::q4_0, 60, 4096, BundleForm::one_read},
    {Format::q4_0, 60, 4096, BundleForm::two_phases},
    {Format::f16, 40, 768, BundleForm::two_phases},
    {Format::f16, 61, 288, BundleForm::one_read},
    {Format::f16, 61, 288, BundleForm::apart},
    {Format::q4_0, 40, 4096, BundleForm::apart_two_phases},
    {Format::f16, 24, 4096, BundleForm::one_read},
};

}  // namespace vitro
