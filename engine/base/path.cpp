#include "engine/base/path.hpp"

#include <filesystem>

namespace vitro {

std::string path_named_by(const Node& value) {
  namespace fs = std::filesystem;
  const fs::path document(value.origin().file ? *value.origin().file : std::string());
  return fs::absolute(document.parent_path() / value.text()).lexically_normal().string();  // of an absolute text, that alone
}

}  // namespace vitro
