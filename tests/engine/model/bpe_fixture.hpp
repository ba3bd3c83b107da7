// bpe_fixture.json, written by bpe_fixture.py from the packages `tokenizers` and `regex`.
#pragma once
#include <nlohmann/json.hpp>

#include "tests/engine/model/support.hpp"

namespace vitro {

inline const nlohmann::json& bpe_fixture() {
  static const nlohmann::json data = nlohmann::json::parse(read_file(VITRO_SOURCE_DIR "/tests/engine/model/bpe_fixture.json"));
  return data;
}

}  // namespace vitro
