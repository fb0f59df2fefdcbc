// The packets of a file as one trace: what TraceReader and load() have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/model/memory_limit.h"
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

/// What the tables of a file of that many bytes may take, and its events: 256 times its size, since blocks of equal
/// events are small, but 64 MiB at least and a quarter of the machine's memory at most.
inline Bytes trace_memory_limit(std::uint64_t file_size) { return default_memory_limit({file_size}, 256, 64_MiB); }

class TraceStream {
 public:
  /// `memory_limit`: of the tables; 0: as the file's size suggests.
  static Result<TraceStream> open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});

  /// Appends the events of the next sound block to `events`. None at the end of what the file holds now.
  Result<std::optional<BlockSummary>> next(EventColumns& events);

  const Header& header() const { return header_; }
  const Tables& tables() const { return tables_.tables(); }
  Tables take_tables() && { return std::move(tables_).take(); }
  /// By default it grows with the file.
  Bytes memory_limit() const { return memory_limit_ == 0_B ? trace_memory_limit(packets_.file_size()) : memory_limit_; }
  /// Of the tables.
  Bytes memory() const { return tables_.memory(); }
  const Losses& losses() const { return all_losses_; }
  const FoldedHistory& folded() const { return folded_; }
  const ReadReport& report() const { return report_; }

 private:
  TraceStream(std::shared_ptr<ByteFile> file, std::string name, Bytes memory_limit)
      : name_(std::move(name)), packets_(std::move(file)), memory_limit_(memory_limit) {}

  /// Reads up to the first block, so that header and first tables are known.
  Result<void> read_beginning();
  Result<std::optional<RawPacket>> next_packet();
  /// Takes in a packet; a summary when it was a block whose events were appended.
  std::optional<BlockSummary> handle(const RawPacket& packet, EventColumns& events);
  /// False when it is damaged.
  bool set_folded(std::string_view message);
  std::optional<BlockSummary> read_block(std::string_view message, EventColumns& events);
  Error over_limit() const;
  void begin_trace(const Header& header);
  void set_losses(const Losses& losses);
  void count_cut_stacks();
  /// The trace is known to have that many events up to here.
  void expect_event(std::uint64_t event);

  std::string name_;
  PacketStream packets_;
  Bytes memory_limit_;
  BlockDecoder decoder_;
  TableReader tables_;
  AllocationNumbers allocations_;
  Header header_;
  bool has_header_ = false;
  std::uint64_t events_before_ = 0;  // in the traces before this one of a concatenation
  std::uint64_t next_event_ = 0;     // expected in this trace
  std::uint64_t events_read_ = 0;
  Losses losses_before_, losses_;
  FoldedHistory folded_;
  Losses all_losses_;  // with the stacks that had to be cut
  ReadReport report_;
  std::uint64_t undecodable_packets_ = 0, undecodable_bytes_ = 0;
};

}  // namespace memreel
