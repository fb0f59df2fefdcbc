#include "formats/import/rocprof/records.h"

#include <algorithm>
#include <unordered_map>

#include "formats/model/limits.h"
#include "formats/model/memory_limit.h"

namespace memreel::rocprof {
namespace {

constexpr std::int32_t device_limit = 1'000;

class RecordWriter {
 public:
  explicit RecordWriter(TraceWriter& writer) : writer_(writer) {}

  void write(const Record& record) {
    Event event{.time = Nanoseconds{record.time_ns}, .address = Address{record.address}, .size = Bytes{record.size}};
    if (record.is_free) {
      const auto memory = kinds_.find(record.address);
      event.kind = EventKind::free_requested;
      event.origin = origin(record, memory == kinds_.end() ? MemoryKind{.kind = record.kind} : memory->second);
      if (memory != kinds_.end()) kinds_.erase(memory);
      writer_.append(event);
      return;
    }
    const MemoryKind memory{record.device, record.kind};
    event.origin = origin(record, memory);
    event.kind = record.address == 0 ? EventKind::alloc_failed : EventKind::alloc;
    if (record.address != 0) {
      const auto [known, is_new] = kinds_.try_emplace(record.address, memory);
      if (!is_new) {
        ++unseen_frees;
        writer_.append({.kind = EventKind::free_requested,
                        .origin = origin(record, known->second),
                        .time = event.time,
                        .address = event.address});
        known->second = memory;
      }
    }
    writer_.append(event);
  }

  std::uint64_t unseen_frees = 0;

 private:
  struct MemoryKind {
    std::int32_t device = 0;
    Kind kind = Kind::real;
  };

  OriginId origin(const Record& record, const MemoryKind& memory) {
    Origin origin{.heap = writer_.intern(Heap{.name = writer_.intern("hsa"),
                                              .level = Level::driver,
                                              .device = memory.device,
                                              .observes_completion = false})};
    if (memory.kind == Kind::virtual_memory) origin.pool = writer_.intern(Pool{.name = writer_.intern("virtual")});
    if (memory.kind == Kind::scratch) origin.pool = writer_.intern(Pool{.name = writer_.intern("scratch")});
    if (record.thread != 0) origin.thread = writer_.intern(Thread{.tid = record.thread});
    return writer_.intern(origin);
  }

  TraceWriter& writer_;
  std::unordered_map<std::uint64_t, MemoryKind> kinds_;  // of live allocations, by address
};

}  // namespace

Result<void> Records::add(const Record& record) {
  const bool failed = !record.is_free && record.address == 0;
  if (!failed) total_ += Bytes{record.size};
  if (!is_possible(Nanoseconds{record.time_ns}) || record.device < -1 || record.device >= device_limit ||
      total_.bytes() > max_total || (!failed && !is_possible(Address{record.address}, Bytes{record.size})))
    return Error{.what = "a record has a time, device, address or size that is out of range",
                 .where = where_,
                 .remedy = "the file is damaged: record it again"};
  if (Bytes{2 * (records_.size() + 1) * sizeof(Record)} > limit_)
    return over_memory_limit(where_, "holds records that need more than", limit_);
  records_.push_back(record);
  if (failed) records_.back().size = as_request(record.size);
  return {};
}

Result<void> Records::write(const Header& header, std::unique_ptr<ByteSink> sink, const WriterOptions& options) {
  if (records_.empty())
    return Error{.what = "has no records of memory",
                 .where = where_,
                 .remedy = "rocprofv3 --memory-allocation-trace -- PROGRAM"};
  std::ranges::stable_sort(records_, {}, &Record::time_ns);
  TraceWriter writer(std::move(sink), header, options);
  RecordWriter recorder(writer);
  for (const Record& record : records_) recorder.write(record);
  writer.set_losses({.hook_refused = recorder.unseen_frees, .unknown_actions = skipped_});
  return writer.finish();
}

}  // namespace memreel::rocprof
