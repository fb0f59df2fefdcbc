#include "formats/writer/trace_writer.h"

#include <algorithm>
#include <tuple>

#include "formats/model/live_set.h"
#include "formats/wire/framing.h"
#include "formats/wire/row_counts.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"
#include "formats/writer/block_encoder.h"
#include "formats/writer/packets.h"
#include "formats/writer/row_index.h"
#include "formats/writer/table_encoder.h"

namespace memreel {
namespace {

/// One per table, in any order: std::get finds it by the type of its rows.
using RowIndexes = std::tuple<RowIndex<std::string>, RowIndex<Module>, RowIndex<Frame>, RowIndex<Stack>, RowIndex<Heap>,
                              RowIndex<Pool>, RowIndex<Stream>, RowIndex<Thread>, RowIndex<Origin>, RowIndex<Mark>,
                              RowIndex<Settings>>;

}  // namespace

class TraceWriter::Impl {
 public:
  Impl(std::unique_ptr<ByteSink> sink, const Header& header, WriterOptions options)
      : sink_(std::move(sink)), options_(options), compressor_(options.compression_level) {
    options_.events_per_block =
        std::clamp<std::uint32_t>(options.events_per_block, 1, std::uint32_t{wire::max_events_per_block});
    write(wire::PacketField::header, encode_header(header));
  }

  template <class Row, class Value>
  std::uint32_t intern(std::vector<Row>& rows, const Value& value) {
    return std::get<RowIndex<Row>>(indexes_).find_or_append(rows, value);
  }

  Tables& tables() { return tables_; }
  const LiveSet& live() const { return live_; }
  void set_losses(const Losses& losses) { losses_ = losses; }

  void extend_tables(const Tables& tables) {
    extend(tables_.strings, tables.strings);
    extend(tables_.modules, tables.modules);
    extend(tables_.frames, tables.frames);
    extend(tables_.stacks, tables.stacks);
    extend(tables_.heaps, tables.heaps);
    extend(tables_.pools, tables.pools);
    extend(tables_.streams, tables.streams);
    extend(tables_.threads, tables.threads);
    extend(tables_.origins, tables.origins);
    extend(tables_.marks, tables.marks);
    extend(tables_.settings, tables.settings);
  }

  AllocationId append(Event event);
  Result<void> flush();
  Result<void> finish();

 private:
  template <class Row>
  void extend(std::vector<Row>& rows, const std::vector<Row>& all) {
    for (std::size_t i = rows.size(); i < all.size(); ++i) {
      rows.push_back(all[i]);
      std::get<RowIndex<Row>>(indexes_).add_last(rows);
    }
  }

  std::uint64_t event_count() const { return block_.first_event + block_.count(); }
  void append_free(const Event& event);
  void write(wire::PacketField kind, const std::string& packet, Nanoseconds first_time = {});
  void write_tables();
  void write_losses();
  void write_keyframe();

  std::unique_ptr<ByteSink> sink_;
  WriterOptions options_;
  wire::Compressor compressor_;
  Result<void> status_;  // the first failure

  Tables tables_;
  RowIndexes indexes_;
  wire::RowCounts rows_written_;
  LiveSet live_{tables_};

  PendingBlock block_;
  BlockEncoder block_encoder_;
  std::uint32_t allocation_count_ = 0;
  AllocationId latest_request_ = AllocationId::none;  // named by the block's latest free_requested

  std::uint64_t unmatched_frees_ = 0;
  Losses losses_, losses_written_;
  std::uint64_t next_keyframe_ = options_.events_per_keyframe;  // at this event
  PacketDirectory directory_;
};

AllocationId TraceWriter::Impl::append(Event event) {
  if (event.kind == EventKind::unknown || !status_) return AllocationId::none;
  if (event.kind == EventKind::alloc) {
    if (allocation_count_ == index(AllocationId::none)) {
      status_ = Error{.what = "a trace holds at most " + std::to_string(allocation_count_) + " allocations",
                      .remedy = "begin a new one"};
      return AllocationId::none;
    }
    event.allocation = AllocationId{allocation_count_++};
  } else if (is_free(event.kind) && index(event.allocation) >= allocation_count_) {
    event.allocation = AllocationId::none;
  }
  live_.apply(event);

  block_.kind.push_back(event.kind);
  block_.time.push_back(event.time);
  block_.origin.push_back(index(event.origin));
  block_.stack.push_back(index(event.stack));
  if (is_free(event.kind)) {
    append_free(event);
  } else {
    if (has_address(event.kind)) block_.address.push_back(event.address.value);
    if (has_size(event.kind)) block_.size.push_back(event.size.count);
    if (has_value(event.kind)) block_.value.push_back(event.value);
  }
  if (block_.count() == options_.events_per_block) std::ignore = flush();
  return is_free(event.kind) || event.kind == EventKind::alloc ? event.allocation : AllocationId::none;
}

void TraceWriter::Impl::append_free(const Event& event) {
  const bool requested = event.kind == EventKind::free_requested;
  const bool matched = event.allocation != AllocationId::none;
  const std::uint32_t back = matched ? allocation_count_ - index(event.allocation) : 0;
  if (requested) {
    block_.requested_back.push_back(back);
    latest_request_ = event.allocation;
  } else {
    block_.completed_back.push_back(matched && event.allocation == latest_request_ ? 0 : back + 1);
  }
  if (!matched) {
    block_.unmatched_address.push_back(event.address.value);
    block_.unmatched_size.push_back(event.size.count);
    ++unmatched_frees_;
  }
}

void TraceWriter::Impl::write(wire::PacketField kind, const std::string& packet, Nanoseconds first_time) {
  if (!status_ || packet.empty()) return;
  directory_.field.push_back(static_cast<std::uint32_t>(kind));
  directory_.size.push_back(packet.size());
  directory_.first_event.push_back(block_.first_event);
  directory_.first_time.push_back(first_time.count());
  status_ = sink_->write(std::as_bytes(std::span(packet)));
}

void TraceWriter::Impl::write_tables() {
  const wire::RowCounts all = wire::row_counts(tables_);
  while (rows_written_ != all) write(wire::PacketField::tables, encode_tables(tables_, rows_written_, compressor_));
}

void TraceWriter::Impl::write_losses() {
  Losses losses = losses_;
  losses.unmatched_frees = std::max(losses.unmatched_frees, unmatched_frees_);
  if (losses == losses_written_) return;
  write(wire::PacketField::losses, encode_losses(losses));
  losses_written_ = losses;
}

/// After a block, so that the state is that before the next event.
void TraceWriter::Impl::write_keyframe() {
  if (options_.events_per_keyframe == 0 || block_.first_event < next_keyframe_) return;
  HeapSnapshot snapshot = live_.snapshot();
  snapshot.event = block_.first_event;
  const Nanoseconds time = block_.time.back();
  write(wire::PacketField::keyframe, encode_keyframe(snapshot, time, compressor_), time);
  next_keyframe_ = block_.first_event + options_.events_per_keyframe;
}

Result<void> TraceWriter::Impl::flush() {
  if (block_.count() == 0 || !status_) return status_;
  write_tables();
  write_losses();
  write(wire::PacketField::events, block_encoder_.encode(block_, live_.heaps(), rows_written_, compressor_),
        block_.time.front());
  block_.first_event = event_count();
  block_.first_allocation = allocation_count_;
  write_keyframe();
  block_.clear();
  latest_request_ = AllocationId::none;
  return status_;
}

Result<void> TraceWriter::Impl::finish() {
  std::ignore = flush();
  write_tables();
  write_losses();
  write(wire::PacketField::footer, encode_footer(directory_, event_count(), allocation_count_));
  if (status_) status_ = sink_->close();
  return status_;
}

TraceWriter::TraceWriter(std::unique_ptr<ByteSink> sink, const Header& header, WriterOptions options)
    : impl_(std::make_unique<Impl>(std::move(sink), header, options)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

StringId TraceWriter::intern(std::string_view text) {
  return StringId{impl_->intern(impl_->tables().strings, text.substr(0, max_text_size))};
}
ModuleId TraceWriter::intern(const Module& module) { return ModuleId{impl_->intern(impl_->tables().modules, module)}; }
FrameId TraceWriter::intern(const Frame& frame) { return FrameId{impl_->intern(impl_->tables().frames, frame)}; }
StackId TraceWriter::intern(const Stack& stack) { return StackId{impl_->intern(impl_->tables().stacks, stack)}; }
HeapId TraceWriter::intern(const Heap& heap) { return HeapId{impl_->intern(impl_->tables().heaps, heap)}; }
PoolId TraceWriter::intern(const Pool& pool) { return PoolId{impl_->intern(impl_->tables().pools, pool)}; }
StreamId TraceWriter::intern(const Stream& stream) { return StreamId{impl_->intern(impl_->tables().streams, stream)}; }
ThreadId TraceWriter::intern(const Thread& thread) { return ThreadId{impl_->intern(impl_->tables().threads, thread)}; }
OriginId TraceWriter::intern(const Origin& origin) { return OriginId{impl_->intern(impl_->tables().origins, origin)}; }
MarkId TraceWriter::intern(const Mark& mark) { return MarkId{impl_->intern(impl_->tables().marks, mark)}; }
SettingsId TraceWriter::intern(const Settings& settings) {
  return SettingsId{impl_->intern(impl_->tables().settings, settings)};
}

const Tables& TraceWriter::tables() const { return impl_->tables(); }
void TraceWriter::extend_tables(const Tables& tables) { impl_->extend_tables(tables); }
AllocationId TraceWriter::append(const Event& event) { return impl_->append(event); }
AllocationId TraceWriter::live_at(HeapId heap, Address address) const { return impl_->live().at(heap, address); }
void TraceWriter::set_losses(const Losses& losses) { impl_->set_losses(losses); }
Result<void> TraceWriter::flush() { return impl_->flush(); }
Result<void> TraceWriter::finish() { return impl_->finish(); }

}  // namespace memreel
