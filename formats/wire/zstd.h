// SPDX-License-Identifier: Apache-2.0
// zstd frames; working memory is kept between calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::wire {

class Compressor {
 public:
  explicit Compressor(int level);

  /// The frame is valid until the next call.
  std::string_view compress(std::string_view content);

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
  std::string frame_;
};

class Decompressor {
 public:
  /// How many bytes after the content may be read (their values are unspecified).
  static constexpr std::size_t padding = 16;

  Decompressor();

  /// The content of a frame, valid until the next call; none unless it is exactly `size` bytes. `size` bytes are
  /// allocated: the caller must bound it.
  std::optional<std::string_view> decompress(std::string_view frame, std::size_t size);

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
  std::vector<char> buffer_;
};

}  // namespace memreel::wire
