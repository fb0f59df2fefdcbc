#include "viewer/model/completed_file.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/replay/completed_trace.h"
#include "formats/reader/load.h"
#include "formats/writer/trace_writer.h"

namespace memreel::viewer {
namespace {

/// A file that owns its bytes.
class OwnFile final : public ByteFile {
 public:
  explicit OwnFile(std::vector<std::byte> bytes) : bytes_(std::move(bytes)), file_(memory_file(bytes_)) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    return file_->read(offset, into);
  }
  std::uint64_t size() override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  std::shared_ptr<ByteFile> file_;
};

}  // namespace

Result<std::shared_ptr<ByteFile>> completed_file(const std::shared_ptr<ByteFile>& file, const std::string& name,
                                                 Bytes memory_limit) {
  Result<Trace> trace = load_checked(file, name, memory_limit);
  if (!trace) return std::move(trace).error();
  if (complete_trace(*trace) == 0) return std::shared_ptr<ByteFile>();
  std::vector<std::byte> bytes;
  TraceWriter writer(memory_sink(bytes), trace->header);
  writer.extend_tables(trace->tables);
  for (InitialHeap& initial : trace->initial_heaps) writer.add_initial_heap(std::move(initial));
  for (std::size_t i = 0; i < trace->events.count(); ++i) static_cast<void>(writer.append(trace->events[i]));
  writer.set_losses(trace->losses);
  writer.set_folded(std::move(trace->folded));
  if (Result<void> done = writer.finish(); !done) return std::move(done).error();
  return std::shared_ptr<ByteFile>(std::make_shared<OwnFile>(std::move(bytes)));
}

}  // namespace memreel::viewer
