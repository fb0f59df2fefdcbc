#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/import/rocprof/records.h"
#include "formats/import/rocprof/rocprof.h"
#include "formats/import/source/log_lines.h"

namespace memreel::rocprof {
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

Result<void> import_csv(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                        const WriterOptions& options) {
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
  return records.write(header, std::move(sink), options);
}

}  // namespace memreel::rocprof
