#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/import/rocprof/records.h"
#include "formats/import/rocprof/rocprof.h"
#include "formats/import/source/json_scalars.h"
#include "formats/import/source/log_lines.h"

namespace memreel::rocprof {
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

Result<void> import_json(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                         const WriterOptions& options) {
  header.source = "rocprof.json";
  ToolReader reader(bytes.where(), bytes.memory_limit());
  if (Result<void> read = visit_json(bytes, reader); !read) return read;
  header.process = reader.process;
  return reader.records.write(header, std::move(sink), options);
}

}  // namespace memreel::rocprof
