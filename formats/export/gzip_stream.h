// Bytes in, gzip out, as they come.
#pragma once

#include <zlib.h>

#include <iosfwd>
#include <string>
#include <string_view>

namespace memreel {

/// Writes one gzip member to `out`. Memory: a buffer of 64 KiB, and what zlib takes.
class GzipStream {
 public:
  explicit GzipStream(std::ostream& out);
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  ~GzipStream();  // does not finish

  void write(std::string_view bytes);
  void finish();  // nothing may be written any more

 private:
  void deflate_all(int flush);

  std::ostream& out_;
  std::string buffer_;
  z_stream stream_{};
};

}  // namespace memreel
