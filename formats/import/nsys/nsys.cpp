#include "formats/import/nsys/nsys.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/import/nsys/tables.h"
#include "formats/import/sqlite/database.h"
#include "formats/model/limits.h"

namespace memreel::nsys {
namespace {

bool is_of_host(MemoryKind kind) { return kind == MemoryKind::pageable || kind == MemoryKind::pinned; }

class TraceMaker {
 public:
  TraceMaker(const Tables& tables, TraceWriter& writer) : tables_(tables), writer_(writer) {}

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
    if (const AllocationId before = writer_.live_at(heap_of(row), event.address);
        !row.is_free && before != AllocationId::none) {
      ++losses_.hook_refused;
      writer_.append(
          {.kind = EventKind::free_requested, .origin = event.origin, .allocation = before, .time = event.time});
    }
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
  TraceWriter& writer_;
  Losses losses_;
  std::vector<Edge> edges_;  // by time
  std::size_t next_edge_ = 0;
  std::map<std::int64_t, StackId> stacks_;  // by call chain
};

}  // namespace

Result<void> import_database(const sqlite::Database& database, Bytes limit, Header header,
                             std::unique_ptr<ByteSink> sink, const WriterOptions& options) {
  const Result<Tables> tables = read_tables(database, limit);
  if (!tables) return tables.error();
  header.source = "nsys.sqlite";
  header.process = tables->process;
  TraceWriter writer(std::move(sink), header, options);
  writer.set_losses(TraceMaker(*tables, writer).write());
  return writer.finish();
}

}  // namespace memreel::nsys
