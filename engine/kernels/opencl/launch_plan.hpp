// What does not depend on OpenCL of a launch: which objects hold a matrix, and how many work items compute it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/base/status.hpp"
#include "engine/kernels/opencl/panels.hpp"

namespace vitro::opencl {

struct Limits {
  std::uint32_t image_width = 0, image_height = 0;  // largest image, in texels; 0: the device has no images
  Bytes most_bytes = 0;                             // of one memory object
  std::uint32_t work_group = 1;                     // most work items of a group
  std::uint32_t compute_units = 1;
};

// Rows of a matrix that one image or buffer holds.
struct Piece {
  std::uint32_t first = 0, count = 0;
};

// Line i of row r of a piece is at x = r + i / height * count, y = i % height: a matrix with more lines than an image is high goes on
// beside them. A buffer is the case of one column: height is all lines.
struct WeightPlan {
  std::vector<Piece> pieces;
  std::uint32_t height = 0;  // lines on top of each other

  std::uint32_t width(const Piece& piece, std::uint32_t lines) const { return (lines + height - 1) / height * piece.count; }
};

// Code::unsupported_shape when one row exceeds the limits, or the device has no images.
Result<WeightPlan> plan_image(std::uint32_t rows, std::uint32_t lines, const Limits& limits);
Result<WeightPlan> plan_buffer(std::uint32_t rows, std::uint32_t lines, const Limits& limits);

// Work items [0] go along the rows of weights, so that a group reads neighbouring words.
struct WorkSize {
  std::uint32_t global[2] = {}, local[2] = {};
};

// One row of activations: one work item per row of weights, or where these are few, two or four that share its 16 lanes (local[1]).
WorkSize decode_work(std::uint32_t rows, const Limits& limits);
// Several rows: a work item has one row of weights and kTile of activations.
inline constexpr std::uint32_t kTile = 4;
WorkSize prefill_work(std::uint32_t rows, std::uint32_t batch, const Limits& limits);

}  // namespace vitro::opencl
