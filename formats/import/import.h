// SPDX-License-Identifier: Apache-2.0
// Imports recordings of other tools as traces.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include "formats/import/source/bytes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

struct ImportOptions {
  std::string format;  // a format's name; empty: detect it from the content
  Bytes memory_limit;  // of the decompressed file, its values, and its trace; 0: chosen from the file's size
  WriterOptions writer{.encode_in_background = true};
  std::function<void(ImportProgress)> on_progress;  // called periodically on the calling thread; may be empty
  std::stop_token stop{};                           // once requested, reading ends with an error
};

struct ImportFormat {
  std::string_view name;         // "torch.snapshot"
  std::string_view description;  // one line
};

/// Every format that import_file() reads.
std::span<const ImportFormat> import_formats();

/// Converts `file` into a trace written to `sink`. The file may be compressed with xz, gzip or zstd. Nothing in the
/// file is executed, and memory is bounded by its (uncompressed) size. Errors: the file can't be read, has an unknown
/// format, or is damaged; `sink` is then not closed.
Result<void> import_file(const std::filesystem::path& file, std::unique_ptr<ByteSink> sink,
                         const ImportOptions& options = {});

/// The same for bytes from any source; `name` becomes the trace's source name.
Result<void> import_bytes(OpenedFile file, const std::string& name, std::unique_ptr<ByteSink> sink,
                          const ImportOptions& options = {});

/// Converts a series of PyTorch snapshots without traces (include_traces=False) into one trace, each an instant, in the
/// given order. Times are the files' modification times if these ascend, else a second apart. Errors: as import_file(),
/// or a file is not such a snapshot.
Result<void> import_series(std::span<const std::filesystem::path> files, std::unique_ptr<ByteSink> sink,
                           const ImportOptions& options = {});

/// The bytes of `file` if it is a trace, compressed or not; null if it must be imported. A trace without a footer is
/// incomplete, e.g. still being recorded.
Result<std::shared_ptr<ByteFile>> open_if_trace(const std::filesystem::path& file, const ImportOptions& options = {});

/// The bytes of a trace: `file` itself if it is a `.reel`, else its decompressed or imported content, in memory.
Result<std::shared_ptr<ByteFile>> open_trace(const std::filesystem::path& file, const ImportOptions& options = {});

/// Whether open_any() would try to read the file: it starts like a trace or one of the formats; JSON only if it has the
/// keys of a snapshot near its start.
bool is_recognised(const std::filesystem::path& file);

/// A trace from a `.reel` file, compressed or not, or from any file that import_file() reads, which is put together in
/// memory.
Result<Trace> open_any(const std::filesystem::path& file, const ImportOptions& options = {});

// A recording, and a profile that its program made of itself meanwhile, as one trace: the driver's calls and the
// tensors in what they gave.

/// The profile in a directory that jax.profiler.trace() or TensorFlow's profiler was given: the newest *.xplane.pb in
/// it. A file is itself. Errors: there is none.
Result<std::filesystem::path> profile_in(const std::filesystem::path& path);

/// Writes the events of both in order of time, with the recording's header; a device's segments that were deduced
/// from the profile are left out, as the recording has the calls that made them. Errors: the recording has no calls of
/// the driver, or is a flight recorder's; the profile knows no device's memory, or is of another time.
Result<void> join(const Trace& recording, const Trace& profile, std::unique_ptr<ByteSink> sink,
                  const WriterOptions& options = {});

}  // namespace memreel
