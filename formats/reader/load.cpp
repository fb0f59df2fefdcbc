#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/reader/footer.h"
#include "formats/reader/trace_reader.h"
#include "formats/reader/trace_stream.h"

namespace memreel {
namespace {

/// How many events the file probably holds: what its footers say, unless it is more than any real file would.
Result<std::size_t> likely_events(ByteFile& file) {
  const std::uint64_t size = file.size();
  std::uint64_t events = 0;
  for (std::uint64_t end = size; end != 0;) {
    auto span = read_footer(file, end);
    if (!span) return std::move(span).error();
    if (!*span) {
      events += end / 2;  // not complete: a guess
      break;
    }
    events += (*span)->footer.event_count;
    end = (*span)->begin;
  }
  return static_cast<std::size_t>(std::min(events, 8 * size));
}

/// Asks for large pages under a column that is about to be filled: page by page, the kernel would take as long to hand
/// out its memory as the reader to fill it.
template <class T>
void prefer_large_pages(std::vector<T>& column) {
  constexpr std::uintptr_t page = std::uintptr_t{2} << 20U;
  const auto begin = reinterpret_cast<std::uintptr_t>(column.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + column.capacity() * sizeof(T)) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

void reserve(EventColumns& events, std::size_t count) {
  events.reserve(count);
  prefer_large_pages(events.kind);
  prefer_large_pages(events.origin);
  prefer_large_pages(events.stack);
  prefer_large_pages(events.allocation);
  prefer_large_pages(events.time);
  prefer_large_pages(events.address_or_value);
  prefer_large_pages(events.size);
}

/// From `begin` on, notes where allocations are and gives frees the address and the size of theirs.
void complete_frees(Trace& trace, std::size_t begin) {
  EventColumns& e = trace.events;
  for (std::size_t i = begin; i < e.count(); ++i) {
    const std::uint32_t allocation = index(e.allocation[i]);
    if (e.kind[i] == EventKind::alloc) trace.allocation_events.push_back(static_cast<std::uint32_t>(i));
    if (allocation >= trace.allocation_events.size()) continue;
    const std::uint32_t source = trace.allocation_events[allocation];
    e.address_or_value[i] = e.address_or_value[source];
    e.size[i] = e.size[source];
  }
}

}  // namespace

Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name) {
  const std::uint64_t size = file->size();
  auto stream = TraceStream::open(file, name);
  if (!stream) return std::move(stream).error();
  auto events = likely_events(*file);
  if (!events) return std::move(events).error();
  Trace trace;
  reserve(trace.events, *events);
  for (;;) {
    const std::size_t begin = trace.events.count();
    auto block = stream->next(trace.events);
    if (!block) return std::move(block).error();
    if (!*block) break;
    complete_frees(trace, begin);
  }
  trace.header = stream->header();
  trace.losses = stream->losses();
  trace.read = stream->report();
  trace.file_size = {size};
  trace.tables = std::move(*stream).take_tables();
  return trace;
}

Result<Trace> load(const std::filesystem::path& path) {
  auto file = open_file(path);
  if (!file) return std::move(file).error();
  return load(*std::move(file), path.string());
}

}  // namespace memreel
