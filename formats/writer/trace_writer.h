// SPDX-License-Identifier: Apache-2.0
// Writes a trace: takes events one at a time, packs them into column blocks, interns what they refer to.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "formats/model/live_set.h"
#include "formats/model/python_holders.h"
#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel {

/// Where the bytes of a trace go.
class ByteSink {
 public:
  ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;
  virtual ~ByteSink() = default;
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  /// Called once, after the last write of a complete trace.
  virtual Result<void> close() = 0;
};

/// Permissions of a recording: it contains the command line, and a program's internal names.
inline constexpr unsigned private_mode = 0600;

/// A file that appears under its name only when complete: close() names it, and nothing is left of it if the sink is
/// destroyed earlier or the process is killed. Where the file system can't have files without a name (NFS, FAT), it is
/// written under a temporary name next to `path`, which a killed process leaves. A new file has `mode` less the umask;
/// a replaced file's mode is kept, and its owner if the system allows. If `path` is a symbolic link, its target is
/// replaced. Anything but a regular file (a device, a pipe) is written to directly. A live recording uses
/// live_file_sink().
Result<std::unique_ptr<ByteSink>> atomic_file_sink(const std::filesystem::path& path, unsigned mode = 0666);
/// Such a file with these bytes.
Result<void> write_whole(const std::filesystem::path& path, std::string_view bytes, unsigned mode = 0666);

/// The file of a recording: readers may open it while it grows. It is open in a program that may close any descriptor,
/// which is detected and repaired.
class LiveFile : public ByteSink {
 public:
  virtual std::uint64_t size() const = 0;  // bytes written
  /// Whether the last write failed for want of disk space. The file then ends as before it.
  virtual bool lacks_space() const = 0;
  /// Renames the file, replacing an existing one; a reader finds either the old or the new one.
  virtual Result<void> rename(const std::filesystem::path& path) = 0;
  /// The open descriptor, for brief use. Errors: the program has closed it, and the file can't be reopened.
  virtual Result<int> descriptor() = 0;
};

/// With exactly `mode`, ignoring the umask. Fails if `path` exists.
Result<std::unique_ptr<LiveFile>> live_file_sink(const std::filesystem::path& path, unsigned mode = private_mode);

/// Appends to `bytes`, which must outlive the sink.
std::unique_ptr<ByteSink> memory_sink(std::vector<std::byte>& bytes);

struct WriterOptions {
  std::uint32_t events_per_block = 65536;       // 1 .. 65536
  std::uint64_t events_per_keyframe = 1 << 20;  // rounded up to whole blocks; 0: none
  int compression_level = 3;                    // zstd
  bool encode_in_background = false;            // one block at a time on a separate thread; the file is identical
};

/// The sink's first failure is kept: later calls do nothing and finish() returns it.
class TraceWriter final : public ImportOutput {
 public:
  TraceWriter(std::unique_ptr<ByteSink> sink, const Header& header, WriterOptions options = {});
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter() override;

  /// Appends the rows that `tables` has beyond this writer's, so that every ID means the same in both. To copy what a
  /// TraceReader reads: called before each batch's events are appended, with flush() after them, it reproduces a trace
  /// byte for byte. All rows so far must have come from earlier states of `tables`.
  void extend_tables(const Tables& tables);

  /// An allocation's ID is its ordinal in the trace.
  AllocationId append(const Event& event) override;

  AllocationId live_at(HeapId heap, Address address) const override;

  HeapState state_of(HeapId heap) const override;

  /// What is live after the events appended so far.
  HeapSnapshot snapshot() const;

  void set_losses(const Losses& losses) override;

  /// The sums of what the trace does not have; written with the next block, or by finish(). IDs are this writer's.
  void set_folded(FoldedHistory folded);

  void add_initial_heap(InitialHeap initial) override;

  void set_python_holders(PythonHolders holders) override;

  /// Writes the events appended so far as a separate block.
  Result<void> flush() override;

  /// flush(), the footer, and closes the sink.
  Result<void> finish() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memreel
