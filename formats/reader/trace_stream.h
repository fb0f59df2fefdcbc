// SPDX-License-Identifier: Apache-2.0
// The packets of a file as one trace: the common part of TraceReader and load().
#pragma once

#include <limits>
#include <memory>

#include "formats/model/files.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/reader/block_decoder.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/table_decoder.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

// Finds the packets of a file: in sequence, skipping damage, or by the footer of a complete trace.

/// A complete trace inside a file, as its footer describes it.
struct FooterSpan {
  FooterMessage footer;  // its packets are contiguous from `begin` to `footer_offset`
  std::uint64_t begin = 0;
  std::uint64_t footer_offset = 0;
};

/// The trace that ends at `end`. None if it is incomplete, or its footer is damaged or inconsistent.
Result<std::optional<FooterSpan>> read_footer(ByteFile& file, std::uint64_t end);

/// A packet with a correct CRC.
struct RawPacket {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // head included
  std::string_view body;   // valid until the stream is used again
};

/// Reads packets in order. If there is none, or its CRC is wrong, continues at the next sync word.
class PacketStream {
 public:
  static constexpr std::uint64_t whole_file = std::numeric_limits<std::uint64_t>::max();

  /// `end`: read only up to it.
  explicit PacketStream(std::shared_ptr<ByteFile> file, std::uint64_t offset = 0, std::uint64_t end = whole_file)
      : file_(std::move(file)), offset_(offset), end_(end) {}

  /// None at the current end of the file. The next call retries an incomplete packet there.
  Result<std::optional<RawPacket>> next();

  /// Continues at `offset`, where a packet is known to begin.
  void seek(std::uint64_t offset) { offset_ = offset; }

  std::uint64_t file_size() const { return file_->size(); }
  std::uint64_t damaged_packets() const { return damaged_packets_; }
  std::uint64_t damaged_bytes() const { return damaged_bytes_; }
  std::uint64_t truncated_bytes() const { return truncated_bytes_; }  // of the incomplete packet at the end

 private:
  std::uint64_t end();
  /// `size` bytes at `offset`, or fewer at the end. Valid until the next call.
  Result<std::string_view> view(std::uint64_t offset, std::size_t size);
  /// The offset of the first head at or after `from`, or of a possible partial one at the end; else the end.
  Result<std::uint64_t> find_head(std::uint64_t from);
  void skip_to(std::uint64_t offset);

  std::shared_ptr<ByteFile> file_;
  std::uint64_t offset_;
  std::uint64_t end_;
  std::string buffer_;
  std::uint64_t buffer_offset_ = 0;  // of its first byte in the file
  std::uint64_t damaged_packets_ = 0;
  std::uint64_t damaged_bytes_ = 0;
  std::uint64_t truncated_bytes_ = 0;
  std::uint64_t failed_crc_bytes_ = 0;
};

/// Fails if the file does not begin like a trace, damaged or not.
Result<void> check_beginning(ByteFile& file, const std::string& name);

/// The packet that begins at `offset` and takes at most `size` bytes; none if it is damaged. Its body is in `buffer`.
Result<std::optional<RawPacket>> read_packet(ByteFile& file, std::uint64_t offset, std::uint64_t size,
                                             std::string& buffer);

/// A block's data other than its events.
struct BlockSummary {
  std::uint64_t first_event = 0;
  std::uint64_t first_allocation = 0;
  std::vector<HeapState> state_after;
};

/// The memory limit for the tables and events of a file of this size: 256 times its size, since blocks of equal events
/// are small, but at least 64 MiB and at most a quarter of the machine's memory.
inline Bytes trace_memory_limit(std::uint64_t file_size) { return default_memory_limit({file_size}, 256, 64_MiB); }

class TraceStream {
 public:
  /// `memory_limit`: for the tables; 0: chosen from the file's size.
  static Result<TraceStream> open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});

  /// Appends the events of the next intact block to `events`. None at the current end of the file.
  Result<std::optional<BlockSummary>> next(EventColumns& events);

  const Header& header() const { return header_; }
  const Tables& tables() const { return tables_.tables(); }
  Tables take_tables() && { return std::move(tables_).take(); }
  /// By default it grows with the file.
  Bytes memory_limit() const { return memory_limit_ == 0_B ? trace_memory_limit(packets_.file_size()) : memory_limit_; }
  /// Used by the tables.
  Bytes memory() const { return tables_.memory(); }
  const Losses& losses() const { return all_losses_; }
  const FoldedHistory& folded() const { return folded_; }
  const std::vector<InitialHeap>& initial_heaps() const { return initial_heaps_; }
  const PythonHolders& python_holders() const { return python_holders_; }
  const ReadReport& report() const { return report_; }

 private:
  TraceStream(std::shared_ptr<ByteFile> file, std::string name, Bytes memory_limit)
      : name_(std::move(name)), packets_(std::move(file)), memory_limit_(memory_limit) {}

  /// Reads up to the first block, so that header and first tables are known.
  Result<void> read_beginning();
  Result<std::optional<RawPacket>> next_packet();
  /// Processes a packet; returns a summary if it was a block whose events were appended.
  std::optional<BlockSummary> handle(const RawPacket& packet, EventColumns& events);
  /// False if it is damaged.
  bool set_folded(std::string_view message);
  bool add_initial_heap(std::string_view message);
  bool set_python_holders(std::string_view message);
  std::optional<BlockSummary> read_block(std::string_view message, EventColumns& events);
  Error over_limit() const;
  void begin_trace(const Header& header);
  void set_losses(const Losses& losses);
  void count_cut_stacks();
  /// The trace is known to have this many events up to here.
  void expect_event(std::uint64_t event);

  std::string name_;
  PacketStream packets_;
  Bytes memory_limit_;
  BlockDecoder decoder_;
  TableReader tables_;
  AllocationNumbers allocations_;
  Header header_;
  bool has_header_ = false;
  std::uint64_t events_before_ = 0;  // in earlier traces of a concatenation
  std::uint64_t next_event_ = 0;     // expected in this trace
  std::uint64_t events_read_ = 0;
  Losses losses_before_, losses_;
  FoldedHistory folded_;
  std::vector<InitialHeap> initial_heaps_;
  PythonHolders python_holders_;
  Losses all_losses_;  // including stacks that had to be cut
  ReadReport report_;
  std::uint64_t undecodable_packets_ = 0, undecodable_bytes_ = 0;
};

}  // namespace memreel
