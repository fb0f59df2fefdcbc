// SPDX-License-Identifier: Apache-2.0
// Files to import, and snapshots to put in them.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/import/import.h"
#include "tests/unit/import/pickle_encoder.h"

namespace memreel::test {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t base = 0x7F00'0000'0000;  // of the first segment of snapshots

/// A file that is deleted with its object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content, const std::string& name = "snapshot.pickle") {
    static std::atomic<int> count = 0;
    directory_ = std::filesystem::temp_directory_path() /
                 ("memreel_import_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directory(directory_);
    path_ = directory_ / name;
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove_all(directory_); }

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::filesystem::path path_;
};

inline Result<Trace> import_bytes(std::string_view content) { return open_any(TemporaryFile(content).path()); }
inline Result<Trace> import_document(const Document& document) { return import_bytes(pickled(document)); }

/// The error message, or "" when there was none.
inline std::string refusal(std::string_view content) {
  const Result<Trace> trace = import_bytes(content);
  return trace ? std::string{} : trace.error().message();
}

inline Document frame(std::string_view name, int line) {
  return {{"name", name}, {"filename", "model.py"}, {"line", line}};
}

inline Document entry(std::string_view action, std::uint64_t address, std::uint64_t size, std::int64_t time_us) {
  return {{"action", action},
          {"addr", address},
          {"size", size},
          {"stream", 0},
          {"time_us", time_us},
          {"compile_context", "N/A"},
          {"frames", Document::array()}};
}

inline Document with_frames(Document entry, const std::vector<Document>& frames) {
  entry["frames"] = frames;
  return entry;
}

inline Document block(std::uint64_t address, std::uint64_t size, std::uint64_t requested,
                      std::string_view state = "active_allocated") {
  return {{"address", address},
          {"size", size},
          {"requested_size", requested},
          {"state", state},
          {"frames", Document::array()}};
}

inline Document segment(std::uint64_t address, std::uint64_t size, std::vector<Document> blocks) {
  return {{"device", 0},
          {"address", address},
          {"total_size", size},
          {"stream", 0},
          {"segment_type", "small"},
          {"segment_pool_id", {0, 0}},
          {"is_expandable", false},
          {"frames", Document::array()},
          {"blocks", blocks}};
}

inline Document snapshot(std::vector<Document> segments, std::vector<Document> entries) {
  return {{"segments", segments}, {"device_traces", {entries}}, {"external_annotations", Document::array()}};
}

inline std::vector<EventKind> kinds(const Trace& trace) { return {trace.events.kind.begin(), trace.events.kind.end()}; }

inline std::size_t count(const Trace& trace, EventKind kind) {
  return static_cast<std::size_t>(std::count(trace.events.kind.begin(), trace.events.kind.end(), kind));
}

}  // namespace memreel::test
