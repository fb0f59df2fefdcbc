// Foreign recordings in: turns a file of another tool into a trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "formats/import/source/byte_stream.h"
#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

struct ImportOptions {
  std::string format;  // name of a format, or empty to detect it from the content
  Bytes memory_limit;  // of what the file decompresses to, of its values, and of its trace; 0: as its size suggests
  WriterOptions writer{.encode_in_background = true};
  std::function<void(ImportProgress)> on_progress;  // called now and then on the calling thread; may be empty
};

struct ImportFormat {
  std::string_view name;         // "torch.snapshot"
  std::string_view description;  // one line
};

/// Every format that import_file() reads.
std::span<const ImportFormat> import_formats();

/// Converts `file` into a trace written to `sink`. The file may be compressed with xz, gzip or zstd. Nothing in the
/// file is executed, and memory is bounded by its (uncompressed) size. Errors: the file can't be read, is of no known
/// format, or is damaged; `sink` is then not closed.
Result<void> import_file(const std::filesystem::path& file, std::unique_ptr<ByteSink> sink,
                         const ImportOptions& options = {});

/// The same for bytes from anywhere; `name` is what the trace says it came from.
Result<void> import_bytes(OpenedFile file, const std::string& name, std::unique_ptr<ByteSink> sink,
                          const ImportOptions& options = {});

/// Converts a series of snapshots of PyTorch's without traces (include_traces=False) into one trace, each an instant,
/// in the order given. Their times are those at which the files were last written where these ascend, else a second
/// apart. Errors: as of import_file(), or a file is no such snapshot.
Result<void> import_series(std::span<const std::filesystem::path> files, std::unique_ptr<ByteSink> sink,
                           const ImportOptions& options = {});

/// A trace that may still be on its way.
struct OpeningTrace {
  std::shared_ptr<ByteFile> file;        // grows until `import` has returned; safe to read meanwhile
  std::function<Result<void>()> import;  // does what is left to do; empty when `file` is all there
};

/// As open_trace(), but leaves an import to the caller, who can read what there is of the trace on another thread
/// meanwhile. A trace without a footer is not complete, as when a program still records it.
Result<OpeningTrace> begin_to_open_trace(const std::filesystem::path& file, const ImportOptions& options = {},
                                         std::stop_token stop = {});

/// The bytes of a trace: `file` itself when it is a `.reel`, else what it decompresses to or is imported as, in memory.
/// Once `stop` is requested an import ends with an error.
Result<std::shared_ptr<ByteFile>> open_trace(const std::filesystem::path& file, const ImportOptions& options = {},
                                             std::stop_token stop = {});

/// Whether open_any() would try to read the file: it begins like a trace or like one of the formats;
/// JSON only when it has the keys of a snapshot near its beginning.
bool is_recognised(const std::filesystem::path& file);

/// A trace from a `.reel` file, compressed or not, or from any file that import_file() reads.
Result<Trace> open_any(const std::filesystem::path& file, const ImportOptions& options = {});

}  // namespace memreel
