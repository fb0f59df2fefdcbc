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

/// Expects that a trace which was put together in memory is what a reader finds in the file of the same trace.
inline void expect_same(const Trace& in_memory, const Trace& of_file) {
  EXPECT_EQ(in_memory.header, of_file.header);
  EXPECT_TRUE(in_memory.tables == of_file.tables) << "tables differ";
  EXPECT_TRUE(in_memory.events == of_file.events) << "events differ";
  EXPECT_EQ(in_memory.losses, of_file.losses);
  EXPECT_EQ(in_memory.folded, of_file.folded);
  EXPECT_EQ(in_memory.initial_heaps, of_file.initial_heaps);
  EXPECT_EQ(in_memory.python_holders, of_file.python_holders);
  EXPECT_EQ(in_memory.read, of_file.read);
}

/// open_any(), which must return the same by way of a trace's file.
inline Result<Trace> import_both_ways(const std::filesystem::path& file) {
  Result<Trace> in_memory = open_any(file);
  const Result<std::shared_ptr<ByteFile>> bytes = open_trace(file);
  const Result<Trace> of_file = bytes ? load_checked(*bytes, file.string()) : bytes.error();
  EXPECT_EQ(in_memory ? "" : in_memory.error().message(), of_file ? "" : of_file.error().message());
  if (in_memory && of_file) expect_same(*in_memory, *of_file);
  return in_memory;
}

inline Result<Trace> import_bytes(std::string_view content) { return import_both_ways(TemporaryFile(content).path()); }
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

inline std::vector<EventKind> kinds(const Trace& trace) {
  return {trace.events.kinds().begin(), trace.events.kinds().end()};
}

inline std::size_t count(const Trace& trace, EventKind kind) {
  return static_cast<std::size_t>(std::ranges::count(trace.events.kinds(), kind));
}

}  // namespace memreel::test
