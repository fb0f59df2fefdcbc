// SPDX-License-Identifier: Apache-2.0
#include "formats/export/gzip_stream.h"

#include <ostream>

namespace memreel {
namespace {

constexpr int window_bits = 15 + 16;  // the largest window, and gzip's header instead of zlib's
constexpr int memory_level = 8;       // zlib's default
constexpr std::size_t buffer_size = 64UL << 10U;

}  // namespace

GzipStream::GzipStream(std::ostream& out) : out_(out), buffer_(buffer_size, '\0') {
  // Fails if there is no memory for it; nothing else in the export would work then.
  if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
    out_.setstate(std::ios::badbit);
}

GzipStream::~GzipStream() { deflateEnd(&stream_); }

void GzipStream::write(std::string_view bytes) {
  // zlib's input is not const for historical reasons; it is not written to.
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
  stream_.avail_in = static_cast<uInt>(bytes.size());
  deflate_all(Z_NO_FLUSH);
}

void GzipStream::finish() { deflate_all(Z_FINISH); }

void GzipStream::deflate_all(int flush) {
  do {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());  // NOLINT(*-reinterpret-cast)
    stream_.avail_out = static_cast<uInt>(buffer_.size());
    if (!out_ || deflate(&stream_, flush) == Z_STREAM_ERROR) return;
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size() - stream_.avail_out));
  } while (stream_.avail_out == 0);
}

}  // namespace memreel
