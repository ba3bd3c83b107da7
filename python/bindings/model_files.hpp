// What is done with model files, and what is to be said of the result: JSON text out.
#pragma once
#include <string>

namespace vitro {

// Packs a model by hand and says what lies where. `order`: a recording, a neuron index of PowerInfer, or "".
std::string pack_text(const std::string& src, const std::string& dst, const std::string& layout, const std::string& order);

// weight_error() of engine/model/quantize.hpp.
std::string weight_error_text(const std::string& path, const std::string& reference);

}  // namespace vitro
