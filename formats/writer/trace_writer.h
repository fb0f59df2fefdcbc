// Writes a trace: takes events one at a time, packs them into blocks of columns, interns what they point to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

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

/// Permissions of a recording: it holds the command line, and what a program is called inside.
inline constexpr unsigned private_mode = 0600;

/// A file that has its name only when it is complete: written under a temporary name beside `path` and renamed by
/// close(); removed when the sink is destroyed before. A new file has `mode` less the umask; one that it replaces hands
/// down its mode, and its owner where the system allows that. Through a symbolic link its target is replaced. What is
/// no regular file (a device, a pipe) is written to. A live recording uses live_file_sink().
Result<std::unique_ptr<ByteSink>> atomic_file_sink(const std::filesystem::path& path, unsigned mode = 0666);

/// A file that can be opened by readers while it grows, with `mode` whatever the umask is. Fails when `path` exists.
Result<std::unique_ptr<ByteSink>> live_file_sink(const std::filesystem::path& path, unsigned mode = private_mode);

/// Appends to `bytes`, which must outlive the sink.
std::unique_ptr<ByteSink> memory_sink(std::vector<std::byte>& bytes);

struct WriterOptions {
  std::uint32_t events_per_block = 65536;       // 1 .. 65536
  std::uint64_t events_per_keyframe = 1 << 20;  // rounded up to whole blocks; 0: none
  int compression_level = 3;                    // zstd
  bool encode_in_background = false;            // one block at a time on a thread of its own; the file is the same
};

/// One thread at a time. Events are written in the order they are appended, which is the order they happened in;
/// their times need not be monotone.
///
/// The first failure of the sink is kept: later calls do nothing and finish() returns it.
class TraceWriter {
 public:
  TraceWriter(std::unique_ptr<ByteSink> sink, const Header& header, WriterOptions options = {});
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  // Interning: equal rows get equal ids, and a row of nothing but defaults gets id 0. Amortised O(1). The ids inside a
  // row must come from this writer. Texts are cut at 1 MiB.
  StringId intern(std::string_view text);
  ModuleId intern(const Module& module);
  FrameId intern(const Frame& frame);
  StackId intern(const Stack& stack);
  HeapId intern(const Heap& heap);
  PoolId intern(const Pool& pool);
  StreamId intern(const Stream& stream);
  ThreadId intern(const Thread& thread);
  OriginId intern(const Origin& origin);
  MarkId intern(const Mark& mark);
  SettingsId intern(const Settings& settings);

  const Tables& tables() const;

  /// Appends the rows that `tables` has beyond those of this writer, so that every id means the same in both. For
  /// writing again what a TraceReader reads: called before the events of each batch are appended, with flush() after
  /// them, it reproduces a trace byte by byte. All rows so far must have come from earlier states of `tables`.
  void extend_tables(const Tables& tables);

  /// Adds an event. Events of kind `unknown` are ignored; fields that a kind does not have are not kept. For `alloc`,
  /// `event.allocation` is ignored and the ordinal given to it is returned. For a free, `allocation` may be none: it is
  /// then found from the heap of `origin` and `address`, and when nothing is live there the event is kept as it is and
  /// counted as an unmatched free. Returns the allocation concerned, or none.
  AllocationId append(const Event& event);

  /// The allocation of `heap` that lives at exactly `address`: requested and not completed. None when there is none.
  AllocationId live_at(HeapId heap, Address address) const;

  /// Requested bytes of what is live in `heap`, after the events appended so far.
  Bytes live_bytes(HeapId heap) const;

  /// What the trace lacks in all; written with the next block, or by finish(). Unmatched frees are counted here as
  /// well: the larger of the two numbers is written.
  void set_losses(const Losses& losses);

  /// Writes the events appended so far as a block of their own, so that a reader (or a crash) finds them in the file.
  /// Does nothing when there are none.
  Result<void> flush();

  /// flush(), the footer, and closes the sink. The writer must not be used afterwards.
  Result<void> finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memreel
