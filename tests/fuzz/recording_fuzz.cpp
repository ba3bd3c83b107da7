// Any bytes as a recording, with the checksum that it should have unless the first byte says otherwise. What was read must survive being
// written.
#include "engine/base/hash.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "traces/recording.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vitro;
  const fuzz::Budget budget(size);
  fuzz::Input input(data, size);
  const bool as_it_is = input.byte() == 1;
  std::string bytes(input.rest());
  if (!as_it_is) {
    Hash hash;
    hash.add(std::string_view(bytes));
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(hash.value() >> shift);
  }
  fuzz::attempt([&] {
    const std::string written = Recording::from_bytes(bytes, "fuzz").to_bytes();
    VITRO_CHECK(Recording::from_bytes(written, "written").to_bytes() == written, "a written recording reads back differently");
  });
  return 0;
}
