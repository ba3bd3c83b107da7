// What the weights of a packed file say, beyond their checksums: anybody can make a file whose checksums are right. Kernels index by
// positions of outliers, by zero points and by orders of columns.
#pragma once
#include <string>

#include "engine/base/file.hpp"
#include "engine/model/pack_plan.hpp"

namespace vitro {

// "" when every row is one that its format can have and every order of columns is that of the model, else what is not, such as
// "blk.1.ffn_up.weight: damaged: row 3: outlier 0 is at column 64 (expected one below 64)". Reads weights of such formats and orders alone.
// Memory: some rows. Requires: `file` is as long as the plan says.
std::string find_bad_contents(const InputFile& file, const Gguf& gguf, const PackPlan& plan);

}  // namespace vitro
