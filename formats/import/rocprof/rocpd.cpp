#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/import/rocprof/records.h"
#include "formats/import/rocprof/rocprof.h"

namespace memreel::rocprof {
namespace {

constexpr const char* view = "memory_allocations";

}  // namespace

bool is_rocpd(const sqlite::Database& database) { return database.columns(view).contains("agent_type_index"); }

Result<void> import_rocpd(const sqlite::Database& database, Bytes limit, Header header, std::unique_ptr<ByteSink> sink,
                          const WriterOptions& options) {
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
  return records.write(header, std::move(sink), options);
}

}  // namespace memreel::rocprof
