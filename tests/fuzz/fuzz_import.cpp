// Any bytes may be offered for import: they become a trace that can be read back, or an error of one line.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "formats/import/byte_cursor.h"
#include "formats/import/torch/torch_snapshot.h"
#include "formats/import/xplane/xplane.h"
#include "formats/reader/trace_reader.h"

namespace {

using namespace memreel;

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteCursor bytes(
      {.bytes = std::make_unique<MemoryStream>(std::span(data, size)), .stored_size = size, .where = "fuzz"}, {});
  std::vector<std::byte> trace;
  const auto import = xplane::looks_like_xspace(bytes.peek(4096)) ? xplane::import_xspace : torch::import_snapshot;
  const Result<void> imported = import(bytes, {}, memory_sink(trace), {});
  if (!imported) {
    require(!imported.error().what.empty() && imported.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const Result<Trace> loaded = load(memory_file(trace), "fuzz");
  require(loaded && loaded->read.intact());
  return 0;
}
