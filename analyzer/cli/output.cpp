#include "analyzer/cli/output.h"

#include <memory>
#include <span>
#include <utility>

#include "formats/writer/trace_writer.h"

namespace memreel::cli {

Result<void> write_file(const std::filesystem::path& file, std::string_view text) {
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(file);
  if (!sink) return std::move(sink).error();
  if (Result<void> written = (*sink)->write(std::as_bytes(std::span(text))); !written) return written;
  return (*sink)->close();
}

}  // namespace memreel::cli
