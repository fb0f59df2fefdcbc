// Reads a trace: block by block in constant memory, whole into columns, or from any instant by its index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/model/live_set.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// Random access to the bytes of a trace.
class ByteFile {
 public:
  ByteFile() = default;
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;
  virtual ~ByteFile() = default;
  /// Fills `into` from `offset`; returns how many bytes there were, fewer only at the end of the file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual std::uint64_t size() = 0;  // now: a file being written grows
};

Result<std::shared_ptr<ByteFile>> open_file(const std::filesystem::path& path);
/// `bytes` must outlive the result.
std::shared_ptr<ByteFile> memory_file(std::span<const std::byte> bytes);

/// One block of decoded events. In frees, `address` and `size` are set only when `allocation` is none: a stream of
/// blocks in constant memory can't look back. load() and LiveSet (formats/model/live_set.h) complete them.
struct EventBatch {
  EventColumns events;                 // without those of unknown kinds
  std::uint64_t first_event = 0;       // as recorded: those lost to damage, or of unknown kinds, count too
  std::uint64_t first_allocation = 0;  // id of the next allocation; dense, whatever was lost
  std::vector<HeapState> state_after;
};

/// Streams a trace from its beginning. Memory: the tables and one block.
class TraceReader {
 public:
  /// Fails only when the file can't be read, does not begin as a trace or asks for too much; damage further on is
  /// skipped and counted. `memory_limit`: what its tables may take; 0: as the file's size suggests.
  static Result<TraceReader> open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  /// Decodes the next block into `batch`, reusing its storage. False at the end of what the file holds now; when a file
  /// is still being written, a later call may find more.
  Result<bool> next(EventBatch& batch);

  const Header& header() const;
  const Tables& tables() const;         // as far as read
  const Losses& losses() const;         // as far as read
  const FoldedHistory& folded() const;  // as far as read
  const ReadReport& report() const;     // as far as read

 private:
  class Impl;
  explicit TraceReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Reads a whole trace into columns. Frees have the address and the size of their allocation, except orphaned ones
/// (ReadReport), which have neither. Ids are dense, whatever was lost. Fails as TraceReader::open() does, or when there
/// is not enough memory.
Result<Trace> load(const std::filesystem::path& path);
Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name);

/// True when the bytes at the beginning of a file are those of a trace.
bool looks_like_trace(std::span<const std::byte> beginning);

}  // namespace memreel
