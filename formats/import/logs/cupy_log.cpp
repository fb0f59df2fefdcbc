// SPDX-License-Identifier: Apache-2.0
#include "formats/import/logs/logs.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/import/source/json_values.h"
#include "formats/import/source/log_lines.h"

namespace memreel::logs {
namespace {

constexpr std::uint64_t cupy_device_limit = 1'000;

struct CupyRecord {
  std::string hook;
  std::optional<std::uint64_t> device, requested, size, address;
};

class CupyLine final : public JsonVisitor {
 public:
  explicit CupyLine(CupyRecord& record) : record_(record) {}

  Result<void> scalar(std::string_view path, const JsonScalar& value) override {
    if (path == "hook") record_.hook = as_text(value);
    if (path == "device_id") record_.device = as_unsigned(value);
    if (path == "size") record_.requested = as_unsigned(value);
    if (path == "mem_size") record_.size = as_unsigned(value);
    if (path == "mem_ptr") record_.address = as_unsigned(value);
    return {};
  }
  Result<void> end_object(std::string_view) override { return {}; }

 private:
  CupyRecord& record_;
};

LineComplaint parse_cupy(std::string_view line, CupyRecord& record) {
  record = {};
  CupyLine visitor(record);
  if (!line.starts_with('{') || !visit_json(line, visitor) || record.hook.empty())
    return "it is not a JSON object with a \"hook\"";
  if (record.hook != "alloc" && record.hook != "malloc" && record.hook != "free") return "its hook is unknown";
  if (!record.device || !record.size || !record.address || (record.hook == "malloc" && !record.requested))
    return "it lacks its device, a size or its address";
  return *record.device >= cupy_device_limit ? "its device number is out of range" : nullptr;
}

class CupyRecorder {
 public:
  explicit CupyRecorder(TraceWriter& writer) : writer_(writer) {}

  LineComplaint add(std::string_view line, std::uint64_t number) {
    if (const LineComplaint complaint = parse_cupy(line, record_)) return complaint;
    if (*record_.address == 0) return nullptr;  // nothing was requested, and nothing allocated
    LoggedPool& pool = pool_of(static_cast<std::int32_t>(*record_.device), Nanoseconds(number));
    const Event event{.origin = writer_.intern(Origin{.heap = pool.heap()}),
                      .time = Nanoseconds(number),
                      .address = Address{*record_.address},
                      .size = Bytes{record_.requested.value_or(*record_.size)}};
    if (record_.hook == "alloc") return pool.add_segment(event, losses);
    return record_.hook == "malloc" ? pool.allocate(event, losses) : pool.free(event);
  }

  Losses losses;

 private:
  LoggedPool& pool_of(std::int32_t device, Nanoseconds time) {
    const auto [pool, is_new] = pools_.try_emplace(device, writer_, "cupy", device);
    if (is_new) {
      const Settings settings{.entries = {{writer_.intern("kind"), writer_.intern("cupy.pool")}}};
      writer_.append({.kind = EventKind::settings,
                      .origin = writer_.intern(Origin{.heap = pool->second.heap()}),
                      .time = time,
                      .value = index(writer_.intern(settings))});
    }
    return pool->second;
  }

  TraceWriter& writer_;
  std::map<std::int32_t, LoggedPool> pools_;  // by device
  CupyRecord record_;
};

}  // namespace

bool looks_like_cupy_log(std::span<const std::byte> beginning) {
  return has_record(beginning, [](std::string_view line) {
    CupyRecord record;
    return parse_cupy(line, record) == nullptr;
  });
}

Result<void> import_cupy_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options) {
  header.source = "cupy.jsonl";
  TraceWriter writer(std::move(sink), header, options);
  CupyRecorder recorder(writer);
  const auto take = [&](std::string_view line, std::uint64_t number) { return recorder.add(line, number); };
  const Result<LineTally> tally = LogLines(bytes, take).read();
  if (!tally) return tally.error();
  constexpr auto remedy =
      R"(a log of CuPy's DebugPrintHook has lines such as {"hook":"malloc","device_id":0,"size":24,"mem_size":512,...})";
  if (Result<void> fine = judge(*tally, bytes.where(), remedy); !fine) return fine;
  recorder.losses.unknown_actions = tally->skipped;
  writer.set_losses(recorder.losses);
  return writer.finish();
}

}  // namespace memreel::logs
