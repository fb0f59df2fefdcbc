// SPDX-License-Identifier: Apache-2.0
// Any bytes may be imported: the result is a trace that can be read back, or a one-line error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/import/import.h"
#include "formats/reader/trace_reader.h"

namespace memreel {
namespace {

class MemoryStream final : public ByteStream {
 public:
  explicit MemoryStream(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t count = std::min(into.size(), bytes_.size() - position_);
    if (count > 0) std::memcpy(into.data(), bytes_.data() + position_, count);
    position_ += count;
    return count;
  }
  std::uint64_t stored_position() const override { return position_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
};

void require(bool condition) {
  if (!condition) std::abort();
}

void import_as(const std::string& format, std::span<const std::uint8_t> data) {
  OpenedFile file{.bytes = std::make_unique<MemoryStream>(data),
                  .stored_size = data.size(),
                  .where = "fuzz",
                  .memory_limit = 256_MiB};
  std::vector<std::byte> trace;
  const Result<void> imported =
      import_bytes(std::move(file), "fuzz", memory_sink(trace), {.format = format, .writer = {}});
  if (!imported) {
    require(!imported.error().what.empty() && imported.error().message().find('\n') == std::string::npos);
    return;
  }
  const Result<Trace> loaded = load(memory_file(trace), "fuzz");
  require(loaded && loaded->read.intact());
}

}  // namespace
}  // namespace memreel

// The name that libFuzzer requires.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memreel::import_as("", {data, size});
  memreel::import_as("torch.snapshot", {data, size});  // whether or not it is detected as one
  return 0;
}
