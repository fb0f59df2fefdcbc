// SPDX-License-Identifier: Apache-2.0
#include "formats/import/nsys/nsys.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>

#include "formats/model/files.h"
#include "formats/model/value_check.h"

namespace memreel::nsys {
namespace {

using sqlite::Row;

constexpr const char* memory_table = "CUDA_GPU_MEMORY_USAGE_EVENTS";
constexpr const char* calls_table = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr std::int64_t most_devices = 1'000;

/// globalPid and globalTid have the process in the same bits.
std::uint64_t process_of(std::int64_t global) { return static_cast<std::uint64_t>(global) / 0x1000000 % 0x1000000; }
std::uint64_t thread_of(std::int64_t global) { return static_cast<std::uint64_t>(global) % 0x1000000; }

class TableReader {
 public:
  TableReader(const sqlite::Database& database, Bytes limit) : database_(database), limit_(limit) {}

  Result<Tables> read() {
    if (database_.columns(memory_table).empty()) return missing_table();
    for (const auto part : {&TableReader::read_memory, &TableReader::read_calls, &TableReader::read_chains,
                            &TableReader::read_ranges, &TableReader::read_strings})
      if (Result<void> done = (this->*part)(); !done) return std::move(done).error();
    return std::move(tables_);
  }

 private:
  Error missing_table() const {
    bool was_off = true;
    const std::array<std::string_view, 2> columns{"name", "value"};
    const Result<void> read = database_.read("META_DATA_CAPTURE", columns, [&](const Row& row) -> Result<void> {
      if (row.text(0).ends_with("COLLECT_GPU_MEMORY_USAGE") && row.text(1) == "true") was_off = false;
      return {};
    });
    if (read && !was_off)
      return {.what = "no event of GPU memory was recorded (no table " + std::string(memory_table) + ")",
              .where = database_.where(),
              .remedy = "record for as long as the program allocates"};
    return {
        .what = "was recorded without GPU memory events (no table " + std::string(memory_table) + ")",
        .where = database_.where(),
        .remedy = "nsys profile --cuda-memory-usage=true --cudabacktrace=memory:0 ..., then nsys export --type sqlite"};
  }

  Result<void> read_memory() {
    const std::array<std::string_view, 9> columns{"start",
                                                  "globalPid",
                                                  "deviceId",
                                                  "address",
                                                  "bytes",
                                                  "memKind",
                                                  "memoryOperationType",
                                                  "correlationId",
                                                  "localMemoryPoolAddress"};
    std::map<std::uint64_t, std::uint64_t> rows_of;  // process
    Result<void> done = database_.read(memory_table, columns, [&](const Row& row) -> Result<void> {
      const auto start = row.integer(0), process = row.integer(1), device = row.integer(2), address = row.integer(3),
                 bytes = row.integer(4), kind = row.integer(5), operation = row.integer(6);
      if (!start || !is_possible(Nanoseconds{*start}) || !process || !device || *device < 0 ||
          *device >= most_devices || !address || !bytes || !kind || !operation || *operation < 0 || *operation > 1) {
        ++tables_.incomplete;
        return {};
      }
      const MemoryRow found{
          .time_ns = *start,
          .process = process_of(*process),
          .device = static_cast<std::int32_t>(*device),
          .is_free = *operation == 1,
          .kind = *kind >= 0 && *kind < std::int64_t(MemoryKind::unknown) ? MemoryKind(*kind) : MemoryKind::unknown,
          .address = static_cast<std::uint64_t>(*address),
          .bytes = static_cast<std::uint64_t>(*bytes),
          .pool = static_cast<std::uint64_t>(row.integer(8).value_or(0)),
          .correlation = row.integer(7).value_or(0)};
      total_ += Bytes{found.bytes};
      if (!is_possible(Address{found.address}, Bytes{found.bytes}) || total_.bytes() > max_total)
        return Error{.what = std::string(memory_table) + " has an address or a size that no device has",
                     .where = database_.where(),
                     .remedy = "the file is damaged: export it again"};
      ++rows_of[found.process];
      tables_.memory.push_back(found);
      return within_limit(sizeof(MemoryRow));
    });
    if (!done) return done;
    const auto most = std::ranges::max_element(rows_of, {}, [](const auto& entry) { return entry.second; });
    if (most == rows_of.end()) return missing_table();
    tables_.process = most->first;
    tables_.others = std::erase_if(tables_.memory, [&](const MemoryRow& row) { return row.process != most->first; });
    std::ranges::stable_sort(tables_.memory, {}, &MemoryRow::time_ns);
    return {};
  }

  /// Assigns to events the call chain and thread of the call that made them.
  Result<void> read_calls() {
    if (database_.columns(calls_table).empty()) return {};
    // Events by correlation and time, and for each the first one from there on that has no call yet.
    std::vector<std::uint32_t> events;
    for (std::uint32_t i = 0; i < tables_.memory.size(); ++i)
      if (tables_.memory[i].correlation != 0) events.push_back(i);
    const auto key_of = [&](std::uint32_t i) {
      return std::pair(tables_.memory[i].correlation, tables_.memory[i].time_ns);
    };
    std::ranges::stable_sort(events, {}, key_of);
    std::vector<std::uint32_t> next(events.size() + 1);
    std::iota(next.begin(), next.end(), std::uint32_t{0});
    const auto without_call = [&](std::uint32_t i) {
      while (next[i] != i) i = next[i] = next[next[i]];
      return i;
    };
    const std::array<std::string_view, 5> columns{"correlationId", "globalTid", "start", "end", "callchainId"};
    return database_.read(calls_table, columns, [&](const Row& row) -> Result<void> {
      const auto correlation = row.integer(0), thread = row.integer(1), start = row.integer(2), end = row.integer(3);
      if (!correlation || !thread || !start || !end || process_of(*thread) != tables_.process) return {};
      const auto first = std::ranges::lower_bound(events, std::pair(*correlation, *start), {}, key_of);
      auto i = without_call(static_cast<std::uint32_t>(first - events.begin()));
      for (; i < events.size() && key_of(events[i]) <= std::pair(*correlation, *end); i = without_call(i)) {
        MemoryRow& event = tables_.memory[events[i]];
        event.tid = thread_of(*thread);
        event.call_chain = row.integer(4).value_or(-1);
        if (event.call_chain >= 0) tables_.chains[event.call_chain];
        next[i] = i + 1;
      }
      return {};
    });
  }

  Result<void> read_chains() {
    if (tables_.chains.empty() || database_.columns("CUDA_CALLCHAINS").empty()) return {};
    const std::array<std::string_view, 4> columns{"id", "stackDepth", "symbol", "module"};
    Result<void> done = database_.read("CUDA_CALLCHAINS", columns, [&](const Row& row) -> Result<void> {
      const auto found = tables_.chains.find(row.integer(0).value_or(-1));
      if (found == tables_.chains.end()) return {};
      const FrameRow frame{.depth = row.integer(1).value_or(0),
                           .symbol = row.integer(2).value_or(-1),
                           .module = row.integer(3).value_or(-1)};
      names_.insert({frame.symbol, frame.module});
      found->second.push_back(frame);
      return within_limit(sizeof(FrameRow));
    });
    for (auto& [id, frames] : tables_.chains) std::ranges::stable_sort(frames, {}, &FrameRow::depth);
    return done;
  }

  Result<void> read_ranges() {
    if (database_.columns("NVTX_EVENTS").empty()) return {};
    constexpr std::int64_t mark = 34, push_pop = 59, start_end = 60;
    const std::array<std::string_view, 6> columns{"start", "end", "eventType", "globalTid", "text", "textId"};
    return database_.read("NVTX_EVENTS", columns, [&](const Row& row) -> Result<void> {
      const auto start = row.integer(0), type = row.integer(2), thread = row.integer(3);
      if (!start || !is_possible(Nanoseconds{*start}) || !thread || process_of(*thread) != tables_.process) return {};
      // NOLINTNEXTLINE(misc-redundant-expression): the checker takes the captured constants for equal
      if (type != mark && type != push_pop && type != start_end) return {};
      const std::int64_t end = type == mark ? -1 : row.integer(1).value_or(-1);
      if (type != mark && (end < *start || !is_possible(Nanoseconds{end}))) return {};  // it never ended
      tables_.ranges.push_back({.begin_ns = *start,
                                .end_ns = end,
                                .tid = thread_of(*thread),
                                .text = std::string(row.text(4)),
                                .text_id = row.integer(5).value_or(-1)});
      if (tables_.ranges.back().text.empty()) names_.insert(tables_.ranges.back().text_id);
      return within_limit(sizeof(RangeRow) + row.text(4).size());
    });
  }

  Result<void> read_strings() {
    if (names_.empty() || database_.columns("StringIds").empty()) return {};
    const std::array<std::string_view, 2> columns{"id", "value"};
    return database_.read("StringIds", columns, [&](const Row& row) -> Result<void> {
      const std::int64_t id = row.integer(0).value_or(-1);
      if (!names_.contains(id)) return {};
      tables_.strings.emplace(id, row.text(1));
      return within_limit(row.text(1).size() + 64);
    });
  }

  Result<void> within_limit(std::size_t more) {
    held_ += Bytes{2 * more};  // twice: its vector may have just grown
    if (held_ <= limit_) return {};
    return over_memory_limit(database_.where(), "holds rows that need more than", limit_);
  }

  const sqlite::Database& database_;
  Bytes limit_, held_;
  TotalBytes total_;
  Tables tables_;
  std::set<std::int64_t> names_;  // in StringIds
};

}  // namespace

Result<Tables> read_tables(const sqlite::Database& database, Bytes limit) {
  return TableReader(database, limit).read();
}

namespace {

bool is_of_host(MemoryKind kind) { return kind == MemoryKind::pageable || kind == MemoryKind::pinned; }

class TraceMaker {
 public:
  TraceMaker(const Tables& tables, ImportOutput& writer) : tables_(tables), writer_(writer) {}

  Losses write() {
    for (const RangeRow& range : tables_.ranges) add_edges(range);
    std::ranges::stable_sort(edges_, {}, &Edge::time_ns);
    losses_.unknown_actions = tables_.others + tables_.incomplete;
    std::ranges::for_each(tables_.memory, [this](const MemoryRow& row) {
      write_marks(row.time_ns);
      write_memory(row);
    });
    write_marks(std::numeric_limits<std::int64_t>::max());
    return losses_;
  }

 private:
  struct Edge {
    std::int64_t time_ns = 0;
    ThreadId thread = ThreadId::unknown;
    MarkId mark = MarkId::none;
  };

  std::string_view string(std::int64_t id) const {
    const auto found = tables_.strings.find(id);
    return found == tables_.strings.end() ? std::string_view{} : std::string_view(found->second);
  }

  ThreadId thread(std::uint64_t tid) { return tid == 0 ? ThreadId::unknown : writer_.intern(Thread{.tid = tid}); }

  void add_edges(const RangeRow& range) {
    const StringId name = writer_.intern(range.text.empty() ? string(range.text_id) : range.text);
    const auto add = [&](std::int64_t time, MarkPhase phase) {
      edges_.push_back({time, thread(range.tid), writer_.intern(Mark{.name = name, .phase = phase})});
    };
    if (range.end_ns < 0) return add(range.begin_ns, MarkPhase::instant);
    add(range.begin_ns, MarkPhase::begin);
    add(range.end_ns, MarkPhase::end);
  }

  void write_marks(std::int64_t until_ns) {
    for (; next_edge_ < edges_.size() && edges_[next_edge_].time_ns <= until_ns; ++next_edge_)
      writer_.append({.kind = EventKind::mark,
                      .origin = writer_.intern(Origin{.thread = edges_[next_edge_].thread}),
                      .time = Nanoseconds{edges_[next_edge_].time_ns},
                      .value = index(edges_[next_edge_].mark)});
  }

  HeapId heap_of(const MemoryRow& row) {
    const bool host = is_of_host(row.kind);
    return writer_.intern(Heap{.name = writer_.intern(host ? "cuda.host" : "cuda.driver"),
                               .level = Level::driver,
                               .device = host ? -1 : row.device,
                               .observes_completion = false});
  }

  OriginId origin_of(const MemoryRow& row) {
    Origin origin{.heap = heap_of(row), .thread = thread(row.tid)};
    if (row.kind == MemoryKind::managed || row.kind == MemoryKind::managed_static)
      origin.pool = writer_.intern(Pool{.name = writer_.intern("managed")});
    else if (row.kind == MemoryKind::array)
      origin.pool = writer_.intern(Pool{.name = writer_.intern("array")});
    else if (row.kind == MemoryKind::pinned)
      origin.pool = writer_.intern(Pool{.name = writer_.intern("pinned")});
    else if (row.pool != 0)
      origin.pool = writer_.intern(Pool{.name = writer_.intern("async"), .key_low = row.pool});
    return writer_.intern(origin);
  }

  void write_memory(const MemoryRow& row) {
    Event event{.kind = row.is_free ? EventKind::free_requested : EventKind::alloc,
                .origin = origin_of(row),
                .stack = stack_of(row.call_chain),
                .time = Nanoseconds{row.time_ns},
                .address = Address{row.address},
                .size = Bytes{row.bytes}};
    if (!row.is_free && writer_.end_unseen(event)) ++losses_.hook_refused;
    writer_.append(event);
  }

  StackId stack_of(std::int64_t chain) {
    const auto found = tables_.chains.find(chain);
    if (found == tables_.chains.end() || found->second.empty()) return StackId::none;
    const auto [known, is_new] = stacks_.try_emplace(chain, StackId::none);
    if (!is_new) return known->second;
    const std::vector<FrameRow>& frames = found->second;
    StackId stack = StackId::none;
    for (std::size_t i = std::min<std::size_t>(frames.size(), max_stack_depth); i-- > 0;) {
      const Frame frame{.function = writer_.intern(string(frames[i].symbol)),
                        .file = writer_.intern(string(frames[i].module))};
      stack = writer_.intern(Stack{.frame = writer_.intern(frame), .caller = stack});
    }
    return known->second = stack;
  }

  const Tables& tables_;
  ImportOutput& writer_;
  Losses losses_;
  std::vector<Edge> edges_;  // by time
  std::size_t next_edge_ = 0;
  std::map<std::int64_t, StackId> stacks_;  // by call chain
};

}  // namespace

Result<void> import_database(const sqlite::Database& database, Bytes limit, Header header, const BeginOutput& begin) {
  const Result<Tables> tables = read_tables(database, limit);
  if (!tables) return tables.error();
  header.source = "nsys.sqlite";
  header.process = tables->process;
  ImportOutput& writer = begin(header);
  writer.set_losses(TraceMaker(*tables, writer).write());
  return writer.finish();
}

}  // namespace memreel::nsys
