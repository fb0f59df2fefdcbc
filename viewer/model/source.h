// SPDX-License-Identifier: Apache-2.0
// Loads a file into a Document: opens it, imports it if it is not a trace, reads it block by block, and follows it
// while it grows.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/whole_trace.h"

namespace memreel::viewer {

/// How long a file without a footer must stay as it is to be completed; four times as long after each addition that
/// comes later than that, because completing renumbers events.
inline constexpr std::chrono::milliseconds patience_with_growth{2000};

enum class Stage : std::uint8_t { importing, reading, complete, failed };

struct SourceStatus {
  Stage stage = Stage::importing;
  double progress = 0;    // 0 .. 1
  bool followed = false;  // the file has no footer: it may still grow, and additions appear
  bool still = false;     // it has not grown for a moment, as if its program was killed, and is shown completed
  std::optional<Error> error;
};

/// Reads in the background (background.h) until this object is destroyed.
class Source {
 public:
  /// `changed` is called on the reading thread whenever document() or status() has changed; may be empty.
  /// `memory_limit`: for the file; 0: a limit based on its size.
  explicit Source(std::filesystem::path path, std::function<void()> changed = {}, Bytes memory_limit = {});
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source();

  const std::filesystem::path& path() const { return path_; }
  /// The latest version; never null.
  std::shared_ptr<const Document> document() const;
  SourceStatus status() const;
  /// While held, reading waits, but not for longer than the first picture takes: on few processors a driver that draws
  /// in software needs them all.
  void hold(bool held) { held_.store(held, std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop);
  Result<void> open_and_read(const std::stop_token& stop);
  Result<void> import(const std::stop_token& stop);
  Result<void> read(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file);
  void index_and_publish(const std::stop_token& stop, std::shared_ptr<const Trace> trace, bool renumbered,
                         const SourceStatus& status);
  Bytes limit_of(const Trace& trace) const;
  /// Whether the file has been replaced since `size` bytes of it were read, the first of them `beginning`.
  bool is_written_anew(std::span<const std::byte> beginning, std::uint64_t size) const;
  void publish(std::shared_ptr<Document> document, const SourceStatus& status);
  void set_status(const SourceStatus& status);

  std::filesystem::path path_;
  std::function<void()> changed_;
  Bytes memory_limit_;
  std::atomic<bool> held_{false};
  // Used by the reading thread.
  bool written_anew_ = false;     // reading ended because the file was overwritten with another trace
  std::uint32_t begun_anew_ = 0;  // how often that happened

  mutable std::mutex mutex_;
  std::shared_ptr<const Document> document_;
  SourceStatus status_;
  Worker worker_;  // last member: it uses the others
};

}  // namespace memreel::viewer
