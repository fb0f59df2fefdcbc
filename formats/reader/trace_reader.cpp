#include "formats/reader/trace_reader.h"

#include <utility>

#include "formats/reader/trace_stream.h"

namespace memreel {

class TraceReader::Impl {
 public:
  explicit Impl(TraceStream opened) : stream(std::move(opened)) {}
  TraceStream stream;
};

TraceReader::TraceReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit) {
  auto stream = TraceStream::open(std::move(file), name, memory_limit);
  if (!stream) return std::move(stream).error();
  return TraceReader(std::make_unique<Impl>(*std::move(stream)));
}

Result<bool> TraceReader::next(EventBatch& batch) {
  batch.events.clear();
  auto summary = impl_->stream.next(batch.events);
  if (!summary) return std::move(summary).error();
  if (!*summary) return false;
  batch.first_event = (*summary)->first_event;
  batch.first_allocation = (*summary)->first_allocation;
  batch.state_after = std::move((*summary)->state_after);
  return true;
}

const Header& TraceReader::header() const { return impl_->stream.header(); }
const Tables& TraceReader::tables() const { return impl_->stream.tables(); }
const Losses& TraceReader::losses() const { return impl_->stream.losses(); }
const FoldedHistory& TraceReader::folded() const { return impl_->stream.folded(); }
const std::vector<InitialHeap>& TraceReader::initial_heaps() const { return impl_->stream.initial_heaps(); }
const ReadReport& TraceReader::report() const { return impl_->stream.report(); }

}  // namespace memreel
