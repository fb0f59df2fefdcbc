// Any recording may be given to any command. Most inputs are well-formed recordings of impossible programs: the mutator
// changes numbers and names, and puts the checksums right. Which command runs is decided by the input, so that what is
// found once is found again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/wire/crc32c.h"
#include "tests/fuzz/commands.h"
#include "tests/fuzz/recording_mutator.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  memreel::fuzz::run_command(memreel::wire::crc32c(text) % memreel::fuzz::command_count(), {data, size});
  return 0;
}
