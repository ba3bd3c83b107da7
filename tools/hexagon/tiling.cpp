// Prints the tiling that T-MAN's search chooses for a device and a format (engine/base/lut_tiling.hpp).
#include "engine/base/lut_tiling.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "engine/base/check.hpp"

int main(int argc, char** argv) {
  using namespace vitro;
  CLI::App app{"hexagon-tiling: one layout of weights for prefill and decode (T-MAN 4.1)"};
  app.footer("Example:\n  hexagon-tiling --bits 2 --group 64 --tcm-mib 8 --threads 4");
  lut::LowBitFormat format;
  lut::TilingLimits limits;
  Bytes tcm_mib = limits.tcm / MiB;
  std::uint32_t value_bits = 16;
  app.add_option("--bits", format.bits, "of a weight")->capture_default_str();
  app.add_option("--group", format.group, "columns that share a scale")->capture_default_str();
  app.add_option("--value-bits", value_bits, "of a table's entry: 8 or 16")->capture_default_str()->check(CLI::IsMember({8, 16}));
  app.add_option("--tcm-mib", tcm_mib, "on-chip memory")->capture_default_str()->check(CLI::Range(0, 1024));
  app.add_option("--threads", limits.threads, "that work on tiles of their own")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--decode-rows", limits.decode_rows, "activation rows of a decode step")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--registers", limits.registers, "of vectors")->capture_default_str()->check(CLI::Range(1, 1024));
  try {
    app.parse(argc, argv);
    limits.tcm = tcm_mib * MiB;
    const auto tiling = lut::search_tiling(limits, format, value_bits);
    std::puts(tiling ? lut::describe(*tiling).c_str() : "no tile fits");
    return tiling ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "hexagon-tiling: %s\n", error.what());
    return 2;
  }
}
