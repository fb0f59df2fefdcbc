// The bytes of a file from beginning to end, decompressed on the fly.
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

  /// Fills `into` from its start and returns the number of bytes: fewer than requested only at the end, and 0 from then
  /// on. Errors: the file can't be read, or its compressed data is damaged or truncated.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  /// How many bytes of the stored file have been consumed so far.
  virtual std::uint64_t stored_position() const = 0;
};

/// A transparently decompressed file: xz, gzip and zstd are recognised by their first bytes; members may be
/// concatenated, as these formats' tools allow.
struct OpenedFile {
  std::unique_ptr<ByteStream> bytes;
  std::uint64_t stored_size = 0;
  bool compressed = false;
  std::string where;           // for Error::where: notes when offsets are those of the uncompressed data
  Bytes memory_limit;          // for what is built from it
  std::filesystem::path file;  // for formats read by offset; empty: `bytes` do not come directly from a file
};

/// `memory_limit`: maximum decompressed size in bytes; default (0): 64 times the file's size, but at least 256 MiB and
/// at most a quarter of the machine's memory.
Result<OpenedFile> open_bytes(const std::filesystem::path& file, Bytes memory_limit = {});

}  // namespace memreel
