// SPDX-License-Identifier: Apache-2.0
#include "formats/import/logs/logs.h"

#include <algorithm>
#include <charconv>

#include "formats/import/source/log_lines.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/model/value_check.h"

namespace memreel::logs {
namespace {

struct Chunk {
  Address address;
  Bytes size;
  bool in_use = false;
  StackId stack = StackId::none;  // the operator, if the line names one
};

/// The number behind `mark`; none if the line lacks it.
std::optional<std::uint64_t> number_behind(std::string_view line, std::string_view mark, int base = 10) {
  const std::size_t found = line.find(mark);
  if (found == std::string_view::npos) return std::nullopt;
  line.remove_prefix(found + mark.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (base == 16 && line.starts_with("0x")) line.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), number, base);
  if (problem != std::errc{}) return std::nullopt;
  return number;
}

std::optional<Chunk> chunk_in(std::string_view line) {
  using Mark = std::pair<std::string_view, bool>;
  for (const auto& [mark, in_use] :
       {Mark{"InUse at ", true}, Mark{"Chunk at ", true}, Mark{"Free  at ", false}, Mark{"Free at ", false}}) {
    const auto address = number_behind(line, mark, 16);
    const auto size = number_behind(line, " of size ");
    if (!address || !size) continue;
    return Chunk{.address = Address{*address}, .size = Bytes{*size}, .in_use = in_use};
  }
  return std::nullopt;
}

/// "GPU_0_bfc" of "Allocator (GPU_0_bfc) ran out of memory".
std::string_view allocator_in(std::string_view line) {
  constexpr std::string_view mark = "Allocator (";
  const std::size_t found = line.find(mark);
  if (found == std::string_view::npos) return {};
  line.remove_prefix(found + mark.size());
  constexpr std::size_t longest_name = 100;
  const std::size_t end = line.find(')');
  return end > longest_name ? std::string_view{} : line.substr(0, end);
}

class BfcDumpReader {
 public:
  explicit BfcDumpReader(ImportOutput& writer) : writer_(writer) {}

  LineComplaint add(std::string_view line) {
    if (auto chunk = chunk_in(line)) {
      if (!is_possible(chunk->address, chunk->size)) return "it has an address or a size that no device has";
      if (std::exchange(ended_, false)) chunks_.clear();
      chunk->stack = operator_in(line);
      chunks_.push_back(*chunk);
      return nullptr;
    }
    if (const std::string_view allocator = allocator_in(line); !allocator.empty()) {
      name_ = std::string(allocator);
      requested_ = number_behind(line, "(rounded to ");
      ended_ = true;
    } else if (line.find("Sum Total of in-use chunks") != std::string_view::npos) {
      ended_ = true;
    }
    return not_a_record;
  }

  Result<void> write() {
    if (chunks_.empty()) return {};
    std::ranges::sort(chunks_, {}, &Chunk::address);
    const std::int32_t device = device_of_name();
    const HeapId heap = writer_.intern(Heap{.name = writer_.intern(name_.empty() ? "bfc" : std::string_view(name_)),
                                            .level = Level::framework,
                                            .device = device,
                                            .observes_completion = false});
    const OriginId origin = writer_.intern(Origin{.heap = heap});
    TotalBytes total;
    for (std::size_t i = 0; i < chunks_.size();) {
      std::size_t end = i + 1;
      Bytes size = chunks_[i].size;
      while (end < chunks_.size() && chunks_[end].address == chunks_[i].address + size &&
             size + chunks_[end].size <= max_allocation)
        size += chunks_[end++].size;
      total += size;
      if (total.bytes() > max_total || (end < chunks_.size() && chunks_[end].address < chunks_[i].address + size))
        return Error{
            .what = "chunks of the dump overlap", .where = {}, .remedy = "two dumps may be mixed: keep one of them"};
      writer_.append({.kind = EventKind::segment_alloc, .origin = origin, .address = chunks_[i].address, .size = size});
      i = end;
    }
    for (const Chunk& chunk : chunks_)
      if (chunk.in_use)
        writer_.append({.kind = EventKind::alloc,
                        .origin = origin,
                        .stack = chunk.stack,
                        .address = chunk.address,
                        .size = chunk.size});
    if (requested_)
      writer_.append({.kind = EventKind::alloc_failed, .origin = origin, .size = Bytes{as_request(*requested_)}});
    return {};
  }

 private:
  /// Newer releases name the operator: "InUse at .. of size 256 by op Fill action_count 12 step 0 next 1".
  StackId operator_in(std::string_view line) {
    constexpr std::string_view mark = " by op ";
    const std::size_t found = line.find(mark);
    if (found == std::string_view::npos) return StackId::none;
    std::string_view name = line.substr(found + mark.size());
    name = name.substr(0, std::min(name.find(" action_count"), std::size_t{200}));
    return writer_.intern(Stack{.frame = writer_.intern(Frame{.function = writer_.intern(name)})});
  }

  /// The N of "GPU_N_bfc".
  std::int32_t device_of_name() const {
    const auto device = number_behind(name_, "GPU_");
    return device && *device < 1000 ? static_cast<std::int32_t>(*device) : 0;
  }

  ImportOutput& writer_;
  std::vector<Chunk> chunks_;  // of the latest dump
  bool ended_ = false;
  std::string name_;
  std::optional<std::uint64_t> requested_;
};

class OrtArenaReader {
 public:
  explicit OrtArenaReader(ImportOutput& writer) : writer_(writer) {}

  LineComplaint add(std::string_view line) {
    constexpr std::string_view arena = "Extending BFCArena for ";
    if (const std::size_t found = line.find(arena); found != std::string_view::npos) {
      const std::string_view name = line.substr(found + arena.size());
      constexpr std::size_t longest_name = 100;
      name_ = std::string(name.substr(0, std::min({name.find('.'), name.find(' '), longest_name})));
    }
    const auto begin = number_behind(line, "Allocated memory at ", 16), end = number_behind(line, " to ", 16);
    if (!begin || !end) return not_a_record;
    if (*end <= *begin || !is_possible(Address{*begin}, Bytes{*end - *begin}) ||
        total_.bytes() + Bytes{*end - *begin} > max_total)
      return "it has an address or a size that no device has";
    total_ += Bytes{*end - *begin};
    const bool on_host = name_.find("Cpu") != std::string::npos || name_.find("CPU") != std::string::npos;
    const HeapId heap = writer_.intern(Heap{.name = writer_.intern("ort.arena " + name_),
                                            .level = Level::framework,
                                            .device = on_host ? -1 : 0,
                                            .observes_completion = false});
    writer_.append({.kind = EventKind::segment_alloc,
                    .origin = writer_.intern(Origin{.heap = heap}),
                    .time = Nanoseconds(++number_),
                    .address = Address{*begin},
                    .size = Bytes{*end - *begin}});
    return nullptr;
  }

  std::int64_t regions() const { return number_; }

 private:
  ImportOutput& writer_;
  std::string name_;
  TotalBytes total_;
  std::int64_t number_ = 0;
};

}  // namespace

bool looks_like_bfc_dump(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    return line.find("fc_allocator") != std::string_view::npos && chunk_in(line).has_value();
  });
}

Result<void> import_bfc_dump(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "tf.bfc";
  ImportOutput& writer = begin(header);
  BfcDumpReader reader(writer);
  const Result<LineTally> tally =
      LogLines(bytes, [&](std::string_view line, std::uint64_t /*number*/) { return reader.add(line); }).read();
  if (!tally) return tally.error();
  if (tally->records == 0)
    return Error{.what = "has no dump of a BFC allocator",
                 .where = bytes.where(),
                 .remedy = "such a log has lines of `InUse at ADDRESS of size BYTES`"};
  if (Result<void> written = reader.write(); !written) {
    written.error().where = bytes.where();
    return written;
  }
  writer.set_losses({.unknown_actions = tally->skipped, .skipped = all_of_a_history()});
  return writer.finish();
}

bool looks_like_ort_arena(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    return line.find("Extending BFCArena for ") != std::string_view::npos ||
           (line.find("bfc_arena.cc") != std::string_view::npos &&
            line.find("Allocated memory at ") != std::string_view::npos);
  });
}

Result<void> import_ort_arena(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "ort.arena";
  ImportOutput& writer = begin(header);
  OrtArenaReader reader(writer);
  const Result<LineTally> tally =
      LogLines(bytes, [&](std::string_view line, std::uint64_t /*number*/) { return reader.add(line); }).read();
  if (!tally) return tally.error();
  if (reader.regions() == 0)
    return Error{.what = "has no regions of ONNX Runtime's arena",
                 .where = bytes.where(),
                 .remedy = "set log_severity_level=0 and log_verbosity_level=1, or record the program: memreel record"};
  writer.set_losses({.unknown_actions = tally->skipped, .skipped = all_in_segments()});
  return writer.finish();
}

}  // namespace memreel::logs
