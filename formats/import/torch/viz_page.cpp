#include "formats/import/torch/viz_page.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "formats/import/source/log_lines.h"
#include "formats/import/torch/torch_snapshot.h"

namespace memreel::torch {
namespace {

/// Consumes the text up to and including `mark`; false if it does not come.
bool skip_past(ByteCursor& text, std::string_view mark) {
  std::size_t matched = 0;
  for (auto byte = text.take(1); !byte.empty(); byte = text.take(1)) {
    const auto letter = std::to_integer<char>(byte[0]);
    // A mark's first character comes again at most as its last, so that a mismatch can only begin anew.
    matched = letter == mark[matched] ? matched + 1 : static_cast<std::size_t>(letter == mark[0]);
    if (matched == mark.size()) return true;
  }
  return false;
}

/// Decodes base64 (RFC 4648) up to the first character that is not of its alphabet.
class Base64Stream final : public ByteStream {
 public:
  explicit Base64Stream(ByteCursor& text) : text_(text) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    std::size_t count = 0;
    while (count < into.size() && !ended_) {
      const auto next = text_.take(1);
      const int digit = next.empty() ? -1 : digit_of(std::to_integer<char>(next[0]));
      if (digit < 0) {
        ended_ = true;
        break;
      }
      bits_ = bits_ << 6U | static_cast<std::uint32_t>(digit);
      bit_count_ += 6;
      if (bit_count_ < 8) continue;
      bit_count_ -= 8;
      into[count++] = static_cast<std::byte>(bits_ >> bit_count_ & 0xFFU);
    }
    if (text_.failure()) return *text_.failure();
    return count;
  }
  std::uint64_t stored_position() const override { return text_.position(); }

 private:
  static int digit_of(char letter) {
    if (letter >= 'A' && letter <= 'Z') return letter - 'A';
    if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9') return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
  }

  ByteCursor& text_;
  std::uint32_t bits_ = 0;
  unsigned bit_count_ = 0;
  bool ended_ = false;
};

}  // namespace

bool looks_like_viz_page(std::span<const std::byte> beginning) {
  const std::string_view text = text_of(beginning);
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos || text[first] != '<') return false;
  return text.find("MemoryViz") != std::string_view::npos || text.find("add_local_files") != std::string_view::npos ||
         text.find("alloc_data") != std::string_view::npos || text.find("Memory Timeline") != std::string_view::npos;
}

Result<void> import_viz_page(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options) {
  if (!skip_past(bytes, "\"base64\"") || !skip_past(bytes, "\"")) {
    if (bytes.failure()) return *bytes.failure();
    return Error{.what = "the page holds a picture, not the snapshot that it was made from",
                 .where = bytes.where(),
                 .remedy =
                     "dump the snapshot itself, torch.cuda.memory._dump_snapshot(), or use export_memory_timeline("
                     "\"x.raw.json.gz\")"};
  }
  ByteCursor pickle({.bytes = std::make_unique<Base64Stream>(bytes),
                     .stored_size = bytes.stored_size(),
                     .compressed = true,
                     .where = bytes.where() + " (the snapshot in it)",
                     .memory_limit = bytes.memory_limit(),
                     .file = {}},
                    {});
  return import_snapshot(pickle, std::move(header), std::move(sink), options);
}

}  // namespace memreel::torch
