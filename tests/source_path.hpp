#pragma once
// Where a test finds the files of the checkout that it was built from.
#include <string>
#include <string_view>

namespace vitro::test {

/// -> the path of a file or folder inside the checkout ("configs/devices/oneplus12.yaml"). Only main.cpp is compiled with the
/// checkout's place, so that the compiler cache serves the tests of other checkouts, too.
std::string source_path(std::string_view inside);

}  // namespace vitro::test
