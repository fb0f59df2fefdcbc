// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/trace_writer.h"

#include <algorithm>
#include <future>

#include "formats/wire/framing.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"
#include "formats/writer/interner.h"
#include "formats/writer/packet_encoder.h"

namespace memreel {
namespace {

/// A block that accepts no more events, with the state after it.
struct ClosedBlock {
  PendingBlock events;
  std::vector<HeapState> state;
  wire::RowCounts rows;
  std::optional<HeapSnapshot> keyframe;
};

struct EncodedBlock {
  std::string events, keyframe;  // packets; the keyframe is empty unless due
};

}  // namespace

class TraceWriter::Impl {
 public:
  Impl(Interner& interner, std::unique_ptr<ByteSink> sink, const Header& header, WriterOptions options)
      : tables_(interner.tables()),
        sink_(std::move(sink)),
        options_(options),
        compressor_(options.compression_level),
        block_compressor_(options.compression_level) {
    options_.events_per_block =
        std::clamp<std::uint32_t>(options.events_per_block, 1, std::uint32_t{wire::max_events_per_block});
    write(wire::PacketField::header, encode_header(header), 0);
  }

  const LiveSet& live() const { return live_; }
  void set_losses(const Losses& losses) { losses_ = losses; }

  void set_folded(FoldedHistory folded) { folded_ = std::move(folded); }
  void add_initial_heap(InitialHeap initial) { initial_heaps_.push_back(std::move(initial)); }

  void set_python_holders(PythonHolders holders) { python_holders_ = std::move(holders); }

  AllocationId append(Event event);
  Result<void> flush();
  Result<void> finish();

 private:
  std::uint64_t event_count() const { return block_.first_event + block_.count(); }
  void append_free(const Event& event);
  void write(wire::PacketField kind, const std::string& packet, std::uint64_t first_event, Nanoseconds first_time = {});
  void write_tables();
  void write_losses();
  void write_folded();
  void write_initial_heaps();
  void close_block();
  EncodedBlock encode_closed();
  void write_closed();

  const Tables& tables_;
  std::unique_ptr<ByteSink> sink_;
  WriterOptions options_;
  wire::Compressor compressor_;
  Result<void> status_;  // the first failure

  wire::RowCounts rows_written_;
  LiveSet live_{tables_};

  PendingBlock block_;
  ClosedBlock closed_;  // being encoded while encoding_ is valid
  BlockEncoder block_encoder_;
  wire::Compressor block_compressor_;
  std::uint32_t allocation_count_ = 0;
  AllocationId latest_request_ = AllocationId::none;  // named by the block's latest free_requested

  std::uint64_t unmatched_frees_ = 0;
  Losses losses_, losses_written_;
  std::optional<FoldedHistory> folded_;     // until it is written
  std::vector<InitialHeap> initial_heaps_;  // until they are written
  PythonHolders python_holders_;
  std::uint64_t next_keyframe_ = options_.events_per_keyframe;  // at this event
  wire::FooterMessage footer_;
  std::future<EncodedBlock> encoding_;  // last: its thread ends before what it uses is destroyed
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
  if (block_.count() == options_.events_per_block) close_block();
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

void TraceWriter::Impl::write(wire::PacketField kind, const std::string& packet, std::uint64_t first_event,
                              Nanoseconds first_time) {
  if (!status_ || packet.empty()) return;
  footer_.packets.push_back(
      {.kind = kind, .size = packet.size(), .first_event = first_event, .first_time = first_time});
  status_ = sink_->write(std::as_bytes(std::span(packet)));
}

void TraceWriter::Impl::write_tables() {
  const wire::RowCounts all = wire::row_counts(tables_);
  while (rows_written_ != all)
    write(wire::PacketField::tables, encode_tables(tables_, rows_written_, compressor_), block_.first_event);
}

void TraceWriter::Impl::write_losses() {
  Losses losses = losses_;
  losses.unmatched_frees = std::max(losses.unmatched_frees, unmatched_frees_);
  if (losses == losses_written_) return;
  write(wire::PacketField::losses, encode_losses(losses), block_.first_event);
  losses_written_ = losses;
}

void TraceWriter::Impl::write_folded() {
  if (!folded_) return;
  constexpr std::size_t rows_per_packet = std::size_t{1} << 17U;
  for (std::span<const FoldedRow> rest = folded_->rows; !rest.empty();) {
    const auto rows = rest.first(std::min(rest.size(), rows_per_packet));
    write(wire::PacketField::folded, encode_folded(*folded_, rows, compressor_), block_.first_event);
    rest = rest.subspan(rows.size());
  }
  folded_.reset();
}

void TraceWriter::Impl::write_initial_heaps() {
  for (const InitialHeap& initial : initial_heaps_)
    write(wire::PacketField::initial_heap, encode_initial_heap(initial, compressor_), block_.first_event);
  initial_heaps_.clear();
}

/// Closes the block and starts its encoding; in the background, the next write_closed() writes it.
void TraceWriter::Impl::close_block() {
  write_closed();
  if (block_.count() == 0 || !status_) return;
  write_tables();
  write_losses();
  write_folded();
  write_initial_heaps();
  closed_.state = live_.heaps();
  closed_.rows = rows_written_;
  closed_.keyframe.reset();
  const std::uint64_t next_event = event_count();
  if (options_.events_per_keyframe != 0 && next_event >= next_keyframe_) {
    closed_.keyframe = live_.snapshot();
    closed_.keyframe->event = next_event;
    next_keyframe_ = next_event + options_.events_per_keyframe;
  }
  std::swap(closed_.events, block_);
  block_.clear();
  block_.first_event = next_event;
  block_.first_allocation = allocation_count_;
  latest_request_ = AllocationId::none;
  const auto policy = options_.encode_in_background ? std::launch::async : std::launch::deferred;
  encoding_ = std::async(policy, [this] { return encode_closed(); });
  if (!options_.encode_in_background) write_closed();
}

/// Touches only the closed block and the encoder's own state: it may run on a separate thread.
EncodedBlock TraceWriter::Impl::encode_closed() {
  EncodedBlock encoded;
  encoded.events = block_encoder_.encode(closed_.events, closed_.state, closed_.rows, block_compressor_);
  if (closed_.keyframe)
    encoded.keyframe = encode_keyframe(*closed_.keyframe, closed_.events.time.back(), block_compressor_);
  return encoded;
}

void TraceWriter::Impl::write_closed() {
  if (!encoding_.valid()) return;
  const EncodedBlock encoded = encoding_.get();
  const PendingBlock& events = closed_.events;
  write(wire::PacketField::events, encoded.events, events.first_event, events.time.front());
  write(wire::PacketField::keyframe, encoded.keyframe, events.first_event + events.count(), events.time.back());
}

Result<void> TraceWriter::Impl::flush() {
  close_block();
  write_closed();
  return status_;
}

Result<void> TraceWriter::Impl::finish() {
  std::ignore = flush();
  write_tables();
  write_losses();
  write_folded();
  write_initial_heaps();
  if (!python_holders_.empty())
    write(wire::PacketField::python_holders, encode_python_holders(python_holders_, compressor_), event_count());
  footer_.event_count = event_count();
  footer_.allocation_count = allocation_count_;
  write(wire::PacketField::footer, encode_footer(footer_), block_.first_event);
  if (status_) status_ = sink_->close();
  return status_;
}

TraceWriter::TraceWriter(std::unique_ptr<ByteSink> sink, const Header& header, WriterOptions options)
    : impl_(std::make_unique<Impl>(interner(), std::move(sink), header, options)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

void TraceWriter::extend_tables(const Tables& tables) { interner().extend(tables); }
AllocationId TraceWriter::append(const Event& event) { return impl_->append(event); }
AllocationId TraceWriter::live_at(HeapId heap, Address address) const { return impl_->live().at(heap, address); }
HeapState TraceWriter::state_of(HeapId heap) const { return impl_->live().state_of(heap); }
HeapSnapshot TraceWriter::snapshot() const { return impl_->live().snapshot(); }
void TraceWriter::set_losses(const Losses& losses) { impl_->set_losses(losses); }
void TraceWriter::set_folded(FoldedHistory folded) { impl_->set_folded(std::move(folded)); }
void TraceWriter::add_initial_heap(InitialHeap initial) { impl_->add_initial_heap(std::move(initial)); }
void TraceWriter::set_python_holders(PythonHolders holders) { impl_->set_python_holders(std::move(holders)); }
Result<void> TraceWriter::flush() { return impl_->flush(); }
Result<void> TraceWriter::finish() { return impl_->finish(); }

}  // namespace memreel
