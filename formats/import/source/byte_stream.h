// The bytes of a file from beginning to end, decompressed on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct ImportProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;  // of the file as stored, compressed or not
};

/// A sequence of bytes that can be read once.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// Fills `into` from its beginning and returns how many bytes there were: fewer than asked for only at the end, where
  /// it is 0 from then on. Errors: the file can't be read, or its compressed data is damaged or cut off.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  /// How many bytes of the file as stored have been taken in so far.
  virtual std::uint64_t stored_position() const = 0;
};

/// A file that decompresses itself: xz, gzip and zstd are told by their first bytes, members may follow one another as
/// the tools of these formats allow.
struct OpenedFile {
  std::unique_ptr<ByteStream> bytes;
  std::uint64_t stored_size = 0;
  bool compressed = false;
  std::string where;           // for Error::where: says when offsets are those of the uncompressed data
  Bytes memory_limit;          // of what is made of it
  std::filesystem::path file;  // for formats that are read by offset; empty: `bytes` are not those of a file
};

/// `memory_limit`: how many bytes it may decompress to; by default (0) 64 times its size, but 256 MiB at least and a
/// quarter of the machine's memory at most.
Result<OpenedFile> open_bytes(const std::filesystem::path& file, Bytes memory_limit = {});

}  // namespace memreel
