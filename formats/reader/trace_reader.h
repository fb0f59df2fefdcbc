// SPDX-License-Identifier: Apache-2.0
// Reads a trace: block by block in constant memory, as a whole into columns, or from any instant through its index.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "formats/model/live_set.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

/// Random access to the bytes of a trace.
class ByteFile {
 public:
  ByteFile() = default;
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;
  virtual ~ByteFile() = default;
  /// Fills `into` from `offset`; returns the number of bytes, which is less only at the end of the file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual std::uint64_t size() = 0;  // current size: a file being written grows
};

Result<std::shared_ptr<ByteFile>> open_file(const std::filesystem::path& path);
/// `bytes` must outlive the result.
std::shared_ptr<ByteFile> memory_file(std::span<const std::byte> bytes);

/// One block of decoded events. In frees, `address` and `size` are set only if `allocation` is none: streaming blocks
/// in constant memory can't look back. load() and LiveSet (formats/model/live_set.h) fill them in.
struct EventBatch {
  EventColumns events;                 // without those of unknown kinds
  std::uint64_t first_event = 0;       // as recorded: events lost to damage or of unknown kinds count too
  std::uint64_t first_allocation = 0;  // ID of the next allocation; dense despite losses
  std::vector<HeapState> state_after;
};

/// Streams a trace from its beginning. Memory: the tables and one block.
class TraceReader {
 public:
  /// Fails only if the file can't be read, does not begin like a trace or exceeds the limit; later damage is skipped
  /// and counted. `memory_limit`: for its tables; 0: chosen from the file's size.
  static Result<TraceReader> open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  /// Decodes the next block into `batch`, reusing its storage. False at the current end of the file; if it is still
  /// being written, a later call may find more.
  Result<bool> next(EventBatch& batch);

  const Header& header() const;
  const Tables& tables() const;                           // as far as read
  const Losses& losses() const;                           // as far as read
  const FoldedHistory& folded() const;                    // as far as read
  const std::vector<InitialHeap>& initial_heaps() const;  // as far as read
  const PythonHolders& python_holders() const;            // as far as read
  const ReadReport& report() const;                       // as far as read
  Bytes memory() const;                                   // used by the tables
  Bytes memory_limit() const;                             // given, or by default; that grows with the file

 private:
  class Impl;
  explicit TraceReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Reads a whole trace into columns. Frees have their allocation's address and size, except orphaned ones (ReadReport),
/// which have neither. IDs are dense despite losses. Fails as TraceReader::open() does, or if there is not enough
/// memory.
Result<Trace> load(const std::filesystem::path& path);
Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name);

/// What `reader` has read so far of a file that has `file_size` bytes, as load() returns it. `events`: those of all its
/// batches.
Trace trace_so_far(const TraceReader& reader, Events events, Bytes file_size);

/// True if a file with these first bytes is a trace.
bool looks_like_trace(std::span<const std::byte> beginning);

// Loads a whole trace into memory, up to a limit.

/// load() (trace_reader.h) for a file whose events and tables may take up to `memory_limit`; 0: 256 times its size,
/// since blocks of equal events are small, but at least 64 MiB and at most a quarter of the machine's memory.
Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit);

/// The same, for computation: also fails if anything in it exceeds formats/model/value_check.h.
Result<Trace> load_checked(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});

}  // namespace memreel
