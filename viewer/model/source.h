// A file on its way to becoming a Document: opened, imported if it is not a trace, read block by block, followed while
// it grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"
#include "viewer/model/document.h"
#include "viewer/model/worker.h"

namespace memreel::viewer {

enum class Stage : std::uint8_t { importing, reading, complete, failed };

struct SourceStatus {
  Stage stage = Stage::importing;
  double progress = 0;    // 0 .. 1
  bool followed = false;  // the file has no footer: it may still grow, and what is added appears
  std::optional<Error> error;
};

/// Reads beside the window (worker.h), until this object goes. What is imported is read while it is.
class Source {
 public:
  /// `changed` is called where it reads whenever document() or status() has changed; may be empty. `memory_limit`: what
  /// the file may ask for; 0: as its size suggests.
  explicit Source(std::filesystem::path path, std::function<void()> changed = {}, Bytes memory_limit = {});
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source();

  const std::filesystem::path& path() const { return path_; }
  /// The latest version; never null.
  std::shared_ptr<const Document> document() const;
  SourceStatus status() const;
  /// The trace itself as the latest document shows it, for jobs that read it whole; null while it is imported.
  std::shared_ptr<ByteFile> file() const;

 private:
  /// An import beside the thread that reads what there is of it.
  class Import;

  void run(const std::stop_token& stop);
  Result<void> open_and_read(const std::stop_token& stop);
  Result<void> read(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file, Import* import);
  Result<bool> publish_subject(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file,
                               const TraceReader& raw);
  /// Whether the file is not the one any more of which `size` bytes were read, the first of them `beginning`.
  bool is_written_anew(std::span<const std::byte> beginning, std::uint64_t size) const;
  void publish(std::shared_ptr<const Document> document, const SourceStatus& status);
  void set_status(const SourceStatus& status);
  void set_file(std::shared_ptr<ByteFile> file);

  std::filesystem::path path_;
  std::function<void()> changed_;
  Bytes memory_limit_;
  // Of who reads.
  bool written_anew_ = false;     // reading ended because another trace was written in this one's place
  std::uint32_t begun_anew_ = 0;  // how often that was

  mutable std::mutex mutex_;
  std::shared_ptr<const Document> document_;
  std::shared_ptr<ByteFile> file_;
  SourceStatus status_;
  Worker worker_;  // last: it uses the others
};

}  // namespace memreel::viewer
