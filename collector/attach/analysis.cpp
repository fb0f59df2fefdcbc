#include "collector/attach/analysis.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "collector/record/companion.h"
#include "formats/model/printable.h"

namespace memreel::attach {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t largest_document = 64ULL << 20U;
constexpr rlim_t most_memory = 6ULL << 30U;  // address space of a report's process
constexpr int nine_times = 9;

std::uint64_t size_of(const std::string& file) {
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(file, problem);
  return problem ? 0 : size;
}

template <class Value>
Value value_of(const Json& object, const char* key, Value otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<Value, std::string>)
    return found->is_string() ? printable(found->template get<std::string>()) : otherwise;
  else
    return found->is_number() ? found->template get<Value>() : otherwise;
}

/// The elements of an array, or none.
const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}

/// The innermost frame in the program's own language: one with a line.
std::string place_of(const Json& stack) {
  const auto has_line = [](const Json& frame) { return frame.is_object() && value_of(frame, "line", 0) > 0; };
  const auto frame = std::ranges::find_if(stack, has_line);
  if (frame == stack.end()) return {};
  const std::string file = value_of<std::string>(*frame, "file", "");
  return value_of<std::string>(*frame, "function", "") + " (" + file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(value_of(*frame, "line", 0)) + ")";
}

/// A program may have several heaps with the same name.
void add(std::vector<CategoryUse>& uses, CategoryUse use) {
  const auto same = std::ranges::find_if(uses, [&](const CategoryUse& known) {
    return known.device == use.device && known.heap == use.heap && known.category == use.category;
  });
  if (same == uses.end())
    uses.push_back(std::move(use));
  else
    same->bytes += use.bytes;
}

std::string read_all(int file) {
  std::string text(
      std::min(static_cast<std::uint64_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0)), largest_document), '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

}  // namespace

std::optional<Findings> findings_of(std::string_view document) {
  const Json report = Json::parse(document, nullptr, false);
  if (!report.is_object() || value_of<std::string>(report, "schema", "") != "memreel.report/1") return std::nullopt;
  Findings findings;
  for (const Json& heap : list_of(report, "live_at_end"))
    for (const Json& share : list_of(heap, "categories")) {
      CategoryUse use{.device = value_of(heap, "device", 0),
                      .heap = value_of<std::string>(heap, "heap", ""),
                      .category = value_of<std::string>(share, "category", ""),
                      .bytes = {value_of<std::uint64_t>(share, "bytes", 0)}};
      if (use.bytes.count > 0) add(findings.categories, std::move(use));
    }
  for (const Json& leak : list_of(report, "leaks")) {
    LeakSoFar found{.verdict = value_of<std::string>(leak, "verdict", ""),
                    .bytes = {value_of<std::uint64_t>(leak, "bytes", 0)},
                    .count = value_of<std::uint64_t>(leak, "count", 0),
                    .growth_per_step = value_of(leak, "growth_bytes_per_step", 0.0),
                    .place = place_of(list_of(leak, "stack"))};
    if (found.verdict == "leak" || found.verdict == "suspected") findings.leaks.push_back(std::move(found));
  }
  std::ranges::stable_sort(findings.leaks, std::ranges::greater{}, &LeakSoFar::bytes);
  return findings;
}

Analysis::~Analysis() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    turn_->taken = false;
  }
  if (output_ >= 0) ::close(output_);
}

void Analysis::advance(Clock::time_point now) {
  int status = 0;
  if (child_ > 0 && ::waitpid(child_, &status, WNOHANG) == child_) end(status, now);
  if (!turn_->taken && now >= turn_->due) begin(now);
}

void Analysis::begin(Clock::time_point now) {
  const std::uint64_t size = size_of(trace_);
  if (size == size_) return;
  if (size > largest_trace.count) {
    problem_ = "the trace is now too large to analyse while recording; use memreel report";
    return;
  }
  output_ = ::memfd_create("memreel-report", MFD_CLOEXEC);
  const auto child = record::start_companion(
      "memreel", {"memreel", "report", trace_, "--live", "--leaks", "--by", "category", "--json"},
      {.input = -1, .output = output_, .errors = -1});
  size_ = size;
  begun_ = now;
  if (!child) {
    problem_ = child.error().message();
    ::close(std::exchange(output_, -1));
    return;
  }
  child_ = *child;
  turn_->taken = true;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(child_), PRIO_MAX - 1);
  const rlimit memory{.rlim_cur = most_memory, .rlim_max = most_memory};
  const rlimit document{.rlim_cur = largest_document, .rlim_max = largest_document};
  ::prlimit(child_, RLIMIT_AS, &memory, nullptr);
  ::prlimit(child_, RLIMIT_FSIZE, &document, nullptr);
}

void Analysis::end(int status, Clock::time_point now) {
  child_ = 0;
  *turn_ = {.taken = false, .due = now + nine_times * (now - begun_)};
  const std::string document = read_all(output_);
  ::close(std::exchange(output_, -1));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    problem_ = "memreel report can't read the trace yet";
    return;
  }
  if (auto found = findings_of(document)) {
    findings_ = *std::move(found);
    problem_.clear();
  }
}

}  // namespace memreel::attach
