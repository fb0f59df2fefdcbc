// The packets of a file as one trace: what TraceReader and load() have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/model/trace.h"
#include "formats/reader/allocation_numbers.h"
#include "formats/reader/block_decoder.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/packet_stream.h"
#include "formats/reader/table_decoder.h"

namespace memreel {

/// What is known of a block besides its events.
struct BlockSummary {
  std::uint64_t first_event = 0;
  std::uint64_t first_allocation = 0;
  std::vector<HeapState> state_after;
};

class TraceStream {
 public:
  static Result<TraceStream> open(std::shared_ptr<ByteFile> file, const std::string& name);

  /// Appends the events of the next sound block to `events`. None at the end of what the file holds now.
  Result<std::optional<BlockSummary>> next(EventColumns& events);

  const Header& header() const { return header_; }
  const Tables& tables() const { return tables_.tables(); }
  Tables take_tables() && { return std::move(tables_).take(); }
  const Losses& losses() const { return losses_; }
  const ReadReport& report() const { return report_; }

 private:
  explicit TraceStream(std::shared_ptr<ByteFile> file) : packets_(std::move(file)) {}

  /// Reads up to the first block, so that header and first tables are known.
  Result<void> read_beginning();
  Result<std::optional<RawPacket>> next_packet();
  /// Takes in a packet; a summary when it was a block whose events were appended.
  std::optional<BlockSummary> handle(const RawPacket& packet, EventColumns& events);
  std::optional<BlockSummary> read_block(std::string_view message, EventColumns& events);
  void begin_trace(const Header& header);
  void set_losses(const Losses& losses);
  /// The trace is known to have that many events up to here.
  void expect_event(std::uint64_t event);

  PacketStream packets_;
  BlockDecoder decoder_;
  TableReader tables_;
  AllocationNumbers allocations_;
  Header header_;
  bool has_header_ = false;
  std::uint64_t events_before_ = 0;  // in the traces before this one of a concatenation
  std::uint64_t next_event_ = 0;     // expected in this trace
  Losses losses_before_, losses_;
  ReadReport report_;
  std::uint64_t undecodable_packets_ = 0, undecodable_bytes_ = 0;
};

}  // namespace memreel
