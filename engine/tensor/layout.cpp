#include "engine/tensor/layout.hpp"

namespace vitro {

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::rows:
      return "rows";
    case Layout::tiled:
      return "tiled";
    case Layout::lut:
      return "lut";
    case Layout::strips:
      return "strips";
  }
  return "?";
}

}  // namespace vitro
