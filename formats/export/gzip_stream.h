// SPDX-License-Identifier: Apache-2.0
// Streaming gzip compression.
#pragma once

#include <zlib.h>

#include <iosfwd>
#include <string>
#include <string_view>

namespace memreel {

/// Writes one gzip member to `out`. Memory: a 64 KiB buffer, plus zlib's own.
class GzipStream {
 public:
  explicit GzipStream(std::ostream& out);
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  ~GzipStream();  // does not finish

  void write(std::string_view bytes);
  void finish();  // nothing may be written afterwards

 private:
  void deflate_all(int flush);

  std::ostream& out_;
  std::string buffer_;
  z_stream stream_{};
};

}  // namespace memreel
