// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <streambuf>

#include "analyzer/cli/output.h"
#include "formats/command_line/parse_errors.h"
#include "formats/model/printable.h"
#include "formats/model/stack_text.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cli {
namespace {

constexpr std::chrono::milliseconds first_drawn{300};  // shorter work finishes before a bar could be read
constexpr std::chrono::milliseconds redraw{100};
constexpr std::uint64_t bar_width = 30;

bool colour(int fd) {
  // https://no-color.org; nothing here changes the environment.
  const char* const no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  return isatty(fd) == 1 && (no_color == nullptr || *no_color == '\0');
}

std::string styled(std::string_view text, std::string_view code, int fd) {
  if (!colour(fd)) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace

Exit fail(const Error& error) {
  std::cerr << error_line(error, "memreel", red("error:", STDERR_FILENO));
  return Exit::unusable;
}

void note(std::string_view text) { std::cerr << "memreel: note: " << printable(text) << '\n'; }

ProgressBar::ProgressBar(std::string label) : label_(printable(label)) {
  if (isatty(STDERR_FILENO) == 1) drawing_ = std::jthread([this](const std::stop_token& stop) { draw_until(stop); });
}

ProgressBar::~ProgressBar() = default;

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (total != 0) share_ = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

void ProgressBar::draw_until(const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  bool drawn = false;
  std::unique_lock lock(mutex_);
  const auto is_over = [&](std::chrono::milliseconds wait) {
    return stopped_.wait_for(lock, stop, wait, [&] { return stop.stop_requested(); });
  };
  for (auto wait = first_drawn; !is_over(wait); wait = redraw) {
    draw(std::chrono::steady_clock::now() - start);
    drawn = true;
  }
  if (drawn) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressBar::draw(std::chrono::steady_clock::duration elapsed) const {
  const double share = share_;
  std::string line = label_;
  if (share < 0) {
    line += " " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(elapsed).count()) + " s";
  } else {
    const auto filled = static_cast<std::uint64_t>(share * static_cast<double>(bar_width));
    line += " ";
    for (std::uint64_t i = 0; i < bar_width; ++i) line += i < filled ? "█" : "░";
    line += " " + std::to_string(static_cast<int>(share * 100)) + " %";
  }
  std::cerr << '\r' + line + "\x1b[K" << std::flush;
}

std::string bold(std::string_view text, int fd) { return styled(text, "1", fd); }
std::string red(std::string_view text, int fd) { return styled(text, "31", fd); }

namespace {

/// A stream into a sink. Keeps the first failure and writes nothing after it.
class SinkBuffer final : public std::streambuf {
 public:
  explicit SinkBuffer(ByteSink& sink) : sink_(sink) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  const std::optional<Error>& problem() const { return problem_; }

 protected:
  int_type overflow(int_type next) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
    return traits_type::not_eof(next);
  }

  int sync() override {
    const std::span<const char> pending(pbase(), pptr());
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    if (problem_) return -1;
    if (Result<void> written = sink_.write(std::as_bytes(pending)); !written) problem_ = std::move(written).error();
    return problem_ ? -1 : 0;
  }

 private:
  ByteSink& sink_;
  std::array<char, 1U << 16U> buffer_{};
  std::optional<Error> problem_;
};

}  // namespace

Result<void> write_output(const std::filesystem::path& file, const std::function<Result<void>(std::ostream&)>& write) {
  if (file.empty()) {
    Result<void> written = write(std::cout);
    Result<void> flushed = flush_output();
    return flushed ? written : flushed;
  }
  std::cout.flush();  // the file may be standard output, too
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(file);
  if (!sink) return std::move(sink).error();
  const auto buffer = std::make_unique<SinkBuffer>(**sink);
  std::ostream out(buffer.get());
  Result<void> written = write(out);
  out.flush();
  if (buffer->problem()) return *buffer->problem();
  if (!written) return written;
  return (*sink)->close();
}

bool is_standard_output(const std::filesystem::path& output) {
  if (output.empty()) return true;
  // std::filesystem::equivalent() does not compare pipes.
  struct stat named {
  }, standard{};
  return ::stat(output.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
         named.st_dev == standard.st_dev && named.st_ino == standard.st_ino;
}

std::string written_text(const std::filesystem::path& file) {
  std::error_code problem;
  const std::uintmax_t size = is_standard_output(file) ? 0 : std::filesystem::file_size(file, problem);
  if (is_standard_output(file) || problem) return {};
  return printable(file.string()) + " (" + text_of(Bytes{size}) + ")\n";
}

bool take_standard_output(std::span<const std::filesystem::path> outputs) {
  return std::ranges::any_of(outputs, [](const auto& output) { return !output.empty() && is_standard_output(output); });
}

Result<void> leave_room_for_json(std::span<const std::filesystem::path> outputs) {
  if (!take_standard_output(outputs)) return {};
  return Error{.what = "writes to standard output, where another output goes, too",
               .where = "--json",
               .remedy = "name a file for that output"};
}

Result<void> leaves_room_for_json(const std::filesystem::path& output) {
  if (!is_standard_output(output)) return {};
  return Error{.what = "writes to standard output, where the output itself goes",
               .where = "--json",
               .remedy = "name a file with -o"};
}

Result<void> flush_output() {
  if (std::cout.flush()) return {};
  return cut_off_output();
}

void print_json(const Json& document) { print_json(document, std::cout); }

void print_json(const Json& document, std::ostream& out) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string one_line(const Json& part) { return part.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of_stack(const Tables& tables, StackId stack) {
  Json::array_t frames;
  for (const FrameText& frame : frames_of(tables, stack)) {
    // An initializer list would copy every text once more, which is most of the time of a document with many stacks.
    Json::object_t row;
    row.reserve(3);
    row.emplace("function", frame.function);
    row.emplace("file", frame.file);
    row.emplace("line", frame.line);
    frames.emplace_back(std::move(row));
  }
  return Json(std::move(frames));
}

Json json_of_losses(const Trace& trace) { return json_of_losses(trace.header, trace.losses, trace.read); }

Json json_of_losses(const Header& header, const Losses& losses, const ReadReport& read) {
  Json skipped = Json::array();
  for (std::size_t i = 0; i < event_kind_count; ++i)
    if (const auto kind = static_cast<EventKind>(i); losses.skipped.contains(kind)) skipped.push_back(name_of(kind));
  return {{"ring_full", losses.ring_full},
          {"stack_table_full", losses.stack_table_full},
          {"hook_refused", losses.hook_refused + losses.unsized_failures},
          {"unknown_actions", losses.unknown_actions},
          {"unmatched_frees", losses.unmatched_frees},
          {"preexisting_allocations", losses.preexisting_allocations},
          {"began_late", losses.began_late},
          {"history_overflowed", losses.history_overflowed},
          {"skipped", std::move(skipped)},
          {"folded_events", losses.folded_events},
          {"folded_until_ns", losses.folded_until.count()},
          {"folded_left_out", losses.folded_left_out},
          {"damaged_packets", read.damaged_packets},
          {"damaged_bytes", read.damaged_bytes},
          {"truncated_bytes", read.truncated_bytes},
          {"unknown_packets", read.unknown_packets},
          {"unknown_events", read.unknown_events},
          {"synthetic", is_synthetic(header)}};
}

Json json_of_failure(const ReplayFailure* failure) {
  if (failure == nullptr) return nullptr;
  return {{"event", failure->event},
          {"requested_bytes", failure->requested.count},
          {"live_bytes", failure->live.count},
          {"reserved_bytes", failure->reserved.count},
          {"capacity_bytes", failure->capacity.count},
          {"free_bytes", failure->free.count},
          {"largest_free_bytes", failure->largest_free.count}};
}

Json json_of(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> Json {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<Value, Bytes>)
          return value.count;
        else
          return value;
      },
      cell);
}

Json json_of_folded_peak(const Trace& trace, HeapId heap) {
  const Bytes peak = folded_peak(trace.folded, heap);
  return peak > 0_B ? Json(peak.count) : Json(nullptr);
}

Json json_of_calls(const DriverCalls& calls) {
  return {{"malloc", calls.malloc},
          {"free", calls.free},
          {"map", calls.map},
          {"unmap", calls.unmap},
          {"sync", calls.sync},
          {"malloc_async", calls.malloc_async},
          {"free_async", calls.free_async},
          {"malloc_shared", calls.malloc_shared},
          {"free_shared", calls.free_shared}};
}

}  // namespace memreel::cli
