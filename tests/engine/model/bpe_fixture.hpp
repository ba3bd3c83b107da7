// bpe_fixture.json, written by bpe_fixture.py from the packages `tokenizers` and `regex`.
#pragma once
#include <nlohmann/json.hpp>

#include "tests/engine/model/support.hpp"
#include "tests/source_path.hpp"

namespace vitro {

inline const nlohmann::json& bpe_fixture() {
  static const nlohmann::json data = nlohmann::json::parse(read_file(test::source_path("tests/engine/model/bpe_fixture.json")));
  return data;
}

}  // namespace vitro
