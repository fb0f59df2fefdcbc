// SPDX-License-Identifier: Apache-2.0
#include "formats/import/rocprof/rocprof.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unordered_map>

#include "formats/import/source/json_values.h"
#include "formats/import/source/log_lines.h"
#include "formats/model/files.h"
#include "formats/model/value_check.h"

namespace memreel::rocprof {
namespace {

constexpr std::int32_t device_limit = 1'000;

class RecordWriter {
 public:
  explicit RecordWriter(ImportOutput& writer) : writer_(writer) {}

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

  ImportOutput& writer_;
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

Result<void> Records::write(const Header& header, const BeginOutput& begin) {
  if (records_.empty())
    return Error{.what = "has no records of memory",
                 .where = where_,
                 .remedy = "rocprofv3 --memory-allocation-trace -- PROGRAM"};
  std::ranges::stable_sort(records_, {}, &Record::time_ns);
  ImportOutput& writer = begin(header);
  RecordWriter recorder(writer);
  for (const Record& record : records_) recorder.write(record);
  writer.set_losses({.hook_refused = recorder.unseen_frees, .unknown_actions = skipped_});
  return writer.finish();
}

namespace {

enum Column : std::uint8_t {
  operation_column,
  agent_column,
  size_column,
  address_column,
  start_column,
  end_column,
  column_count
};
constexpr std::array<std::string_view, column_count> column_names{"Operation", "Agent_Id",        "Allocation_Size",
                                                                  "Address",   "Start_Timestamp", "End_Timestamp"};

/// The fields of a line, without quotes around them. Agent names contain no quotes.
std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const bool is_quoted = line.starts_with('"');
    const std::size_t closing = is_quoted ? line.find('"', 1) : std::string_view::npos;
    const std::size_t comma = line.find(',', closing == std::string_view::npos ? 0 : closing);
    std::string_view field = line.substr(0, comma);
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    fields.push_back(field);
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

/// The position of each column; none if one is missing.
using Order = std::array<std::size_t, column_count>;
std::optional<Order> order_of(std::string_view header) {
  const std::vector<std::string_view> fields = fields_of(header);
  Order order{};
  for (std::size_t column = 0; column < column_count; ++column) {
    const auto found = std::ranges::find(fields, column_names[column]);
    if (found == fields.end()) return std::nullopt;
    order[column] = static_cast<std::size_t>(found - fields.begin());
  }
  return order;
}

/// Hexadecimal if it begins with 0x.
template <class Number>
bool parse(std::string_view text, Number& into) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), into, hexadecimal ? 16 : 10);
  return error == std::errc{} && after == text.data() + text.size();
}

LineComplaint record_from(std::string_view line, const Order& order, Record& record) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() <= *std::ranges::max_element(order)) return "it has fewer fields than the first line";
  const auto field = [&](Column column) { return fields[order[column]]; };
  const std::string_view action = field(operation_column);
  record.is_free = action.ends_with("FREE");
  if (!record.is_free && !action.ends_with("ALLOCATE")) return "its operation is unknown";
  record.kind = action.find("VMEM") == std::string_view::npos ? Kind::real : Kind::virtual_memory;
  std::string_view number = field(agent_column);
  if (number.starts_with("Agent ")) number.remove_prefix(6);
  if (!parse(field(address_column), record.address)) return "its address is not a number";
  if (!record.is_free &&
      (!parse(field(size_column), record.size) || !parse(number, record.device) || record.device < 0))
    return "its size or agent is not a number";
  return parse(field(record.is_free ? start_column : end_column), record.time_ns) ? nullptr
                                                                                  : "its time is not a number";
}

}  // namespace

bool looks_like_csv(std::span<const std::byte> beginning) {
  const std::string_view text = text_of(beginning);
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return order_of(line).has_value();
}

Result<void> import_csv(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "rocprof.csv";
  Records records(bytes.where(), bytes.memory_limit());
  std::optional<Order> order;
  std::optional<Error> failure;
  const auto take = [&](std::string_view line, std::uint64_t /*number*/) -> LineComplaint {
    if (failure) return not_a_record;
    if (!order) {
      order = order_of(line);
      return order ? not_a_record : "it does not name the columns of memory allocations";
    }
    Record record;
    const LineComplaint complaint = record_from(line, *order, record);
    if (complaint != nullptr) records.skip();
    if (complaint == nullptr)
      if (const Result<void> added = records.add(record); !added) failure = added.error();
    return complaint;
  };
  const Result<LineTally> tally = LogLines(bytes, take).read();
  if (!tally) return tally.error();
  if (failure) return *failure;
  if (Result<void> fine = judge(*tally, bytes.where(), "rocprofv3 --memory-allocation-trace -f csv -- PROGRAM"); !fine)
    return fine;
  return records.write(header, begin);
}

namespace {

constexpr std::string_view agent_path = "rocprofiler-sdk-tool[].agents[]";
constexpr std::string_view record_path = "rocprofiler-sdk-tool[].buffer_records.memory_allocation[]";

/// rocprofiler_memory_allocation_operation_t and rocprofiler_agent_type_t.
constexpr std::uint64_t op_allocate = 1, op_vmem_allocate = 2, op_free = 3, op_vmem_free = 4, agent_is_processor = 1;

class ToolReader final : public JsonVisitor {
 public:
  ToolReader(std::string where, Bytes limit) : records(std::move(where), limit) {}

  Result<void> scalar(std::string_view path, const JsonScalar& value) override {
    if (path == "rocprofiler-sdk-tool[].metadata.pid") process = as_unsigned(value).value_or(0);
    if (path.starts_with(agent_path) && path.size() > agent_path.size()) {
      const std::string_view key = path.substr(agent_path.size() + 1);
      if (key == "id.handle") agent_.handle = as_unsigned(value);
      if (key == "type") agent_.type = as_unsigned(value);
      if (key == "logical_node_type_id") agent_.number = as_unsigned(value);
    } else if (path.starts_with(record_path) && path.size() > record_path.size()) {
      const std::string_view key = path.substr(record_path.size() + 1);
      if (key == "operation") record_.operation = as_unsigned(value);
      if (key == "thread_id") record_.thread = as_unsigned(value);
      if (key == "start_timestamp") record_.start = as_signed(value);
      if (key == "end_timestamp") record_.end = as_signed(value);
      if (key == "agent_id.handle") record_.agent = as_unsigned(value);
      if (key == "address" || key == "address.handle") record_.address = address_from(value);
      if (key == "allocation_size") record_.size = as_unsigned(value);
    }
    return {};
  }

  Result<void> end_object(std::string_view path) override {
    Result<void> done;
    if (path == agent_path) {
      constexpr std::uint64_t most_devices = 1'000;
      if (agent_.handle && agents_.size() < most_devices)
        agents_[*agent_.handle] = agent_.type == agent_is_processor
                                      ? -1
                                      : static_cast<std::int32_t>(std::min(agent_.number.value_or(0), most_devices));
      agent_ = {};
    } else if (path == record_path) {
      done = take();
      record_ = {};
    }
    return done;
  }

  Records records;
  std::uint64_t process = 0;

 private:
  struct Agent {
    std::optional<std::uint64_t> handle, type, number;
  };
  struct RawRecord {
    std::optional<std::uint64_t> operation, thread, agent, address, size;
    std::optional<std::int64_t> start, end;
  };

  /// A number, or a hexadecimal string.
  static std::optional<std::uint64_t> address_from(const JsonScalar& value) {
    std::string_view text = as_text(value);
    if (text.empty()) return as_unsigned(value);
    if (text.starts_with("0x")) text.remove_prefix(2);
    std::uint64_t address = 0;
    const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), address, 16);
    return error == std::errc{} && after == text.data() + text.size() ? std::optional(address) : std::nullopt;
  }

  Result<void> take() {
    const bool is_free = record_.operation == op_free || record_.operation == op_vmem_free;
    const bool is_known = is_free || record_.operation == op_allocate || record_.operation == op_vmem_allocate;
    const std::optional<std::int64_t> time = is_free ? record_.start : record_.end;
    if (!is_known || !time || !record_.address || (!is_free && !record_.size)) {
      records.skip();
      return {};
    }
    Record record{.time_ns = *time,
                  .address = *record_.address,
                  .size = is_free ? 0 : *record_.size,
                  .thread = record_.thread.value_or(0),
                  .is_free = is_free};
    if (record_.operation == op_vmem_allocate || record_.operation == op_vmem_free) record.kind = Kind::virtual_memory;
    const auto agent = agents_.find(record_.agent.value_or(0));
    if (!is_free && agent != agents_.end()) record.device = agent->second;
    return records.add(record);
  }

  Agent agent_;
  RawRecord record_;
  std::map<std::uint64_t, std::int32_t> agents_;  // device by handle
};

}  // namespace

bool looks_like_json(std::span<const std::byte> beginning) {
  const std::string_view text = text_of(beginning);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         text.find("\"rocprofiler-sdk-tool\"") != std::string_view::npos;
}

Result<void> import_json(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "rocprof.json";
  ToolReader reader(bytes.where(), bytes.memory_limit());
  if (Result<void> read = visit_json(bytes, reader); !read) return read;
  header.process = reader.process;
  return reader.records.write(header, begin);
}

namespace {

constexpr const char* view = "memory_allocations";

}  // namespace

bool is_rocpd(const sqlite::Database& database) { return database.columns(view).contains("agent_type_index"); }

Result<void> import_rocpd(const sqlite::Database& database, Bytes limit, Header header, const BeginOutput& begin) {
  header.source = "rocpd";
  Records records(database.where(), limit);
  constexpr std::array<std::string_view, 10> columns{
      "start", "end", "type", "level", "agent_type", "agent_type_index", "address", "size", "tid", "pid"};
  Result<void> read = database.read(view, columns, [&](const sqlite::Row& row) -> Result<void> {
    const bool is_free = row.text(2) == "FREE";
    const auto time = row.integer(is_free ? 0 : 1), address = row.integer(6), size = row.integer(7);
    if ((!is_free && row.text(2) != "ALLOC") || !time || !address || (!is_free && !size)) {
      records.skip();
      return {};
    }
    if (header.process == 0) header.process = static_cast<std::uint64_t>(row.integer(9).value_or(0));
    const std::int64_t number = row.text(4) == "CPU" ? -1 : row.integer(5).value_or(0);
    constexpr std::int64_t beyond = 1'000;  // refused
    return records.add({.time_ns = *time,
                        .address = static_cast<std::uint64_t>(*address),
                        .size = is_free ? 0 : static_cast<std::uint64_t>(*size),
                        .thread = static_cast<std::uint64_t>(row.integer(8).value_or(0)),
                        .device = static_cast<std::int32_t>(number < -1 || number > beyond ? beyond : number),
                        .is_free = is_free,
                        .kind = row.text(3) == "VIRTUAL"   ? Kind::virtual_memory
                                : row.text(3) == "SCRATCH" ? Kind::scratch
                                                           : Kind::real});
  });
  if (!read) return read;
  return records.write(header, begin);
}

}  // namespace memreel::rocprof
