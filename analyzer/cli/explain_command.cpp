// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <system_error>

#include "analyzer/analysis/explain/answer.h"
#include "analyzer/analysis/explain/failure.h"
#include "analyzer/analysis/explain/log_scan.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "formats/import/source/bytes.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

struct ExplainArguments {
  std::string log, name;
  bool has_log = false, clipboard = false, json = false, ascii = false, texts = false;
};

Error no_log(std::string where) {
  return {.what = "is not text", .where = std::move(where), .offset = 0, .remedy = "give the log itself"};
}

Error unreadable(std::string where) {
  return {.what = std::string{"can't be read: "} + std::generic_category().message(errno),
          .where = std::move(where),
          .remedy = "check the name and its permissions"};
}

/// What a descriptor delivers.
class DescriptorStream final : public ByteStream {
 public:
  DescriptorStream(int descriptor, std::string where) : descriptor_(descriptor), where_(std::move(where)) {}

  /// The first bytes, which are read again.
  Result<std::span<const std::byte>> peek() {
    const Result<std::size_t> count = read(beginning_);
    if (!count) return count.error();
    position_ = 0;
    peeked_ = *count;
    return std::span<const std::byte>(beginning_).first(*count);
  }
  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t again = std::min(peeked_ - used_, into.size());
    std::copy_n(beginning_.begin() + static_cast<std::ptrdiff_t>(used_), again, into.begin());
    used_ += again;
    std::size_t filled = again;
    while (filled < into.size()) {
      const ssize_t count = ::read(descriptor_, into.data() + filled, into.size() - filled);
      if (count == 0) break;
      if (count < 0 && errno != EINTR) return unreadable(where_);
      if (count > 0) filled += static_cast<std::size_t>(count);
    }
    position_ += filled;
    return filled;
  }
  std::uint64_t stored_position() const override { return position_; }

 private:
  int descriptor_;
  std::string where_;
  std::array<std::byte, 8> beginning_{};
  std::size_t peeked_ = 0, used_ = 0;
  std::uint64_t position_ = 0;
};

// Nothing is kept of what is decompressed: its size needs no limit.
constexpr Bytes any_size{std::numeric_limits<std::uint64_t>::max() / 2};

/// Passes what a descriptor delivers, compressed or not, to `scan`.
Result<void> take_all(int descriptor, const std::string& where, explain::LogScan& scan) {
  auto stored = std::make_unique<DescriptorStream>(descriptor, where);
  const auto beginning = stored->peek();
  if (!beginning) return beginning.error();
  const Compression compression = compression_of(*beginning);
  std::unique_ptr<ByteStream> bytes = std::move(stored);
  if (compression != Compression::none) bytes = decompress(compression, std::move(bytes), where, any_size);
  std::vector<std::byte> piece(std::size_t{1} << 18U);
  for (;;) {
    const Result<std::size_t> count = bytes->read(piece);
    if (!count) return count.error();
    if (*count == 0) return {};
    if (!scan.take({reinterpret_cast<const char*>(piece.data()), *count})) return no_log(where);
  }
}

Result<void> take_file(const std::filesystem::path& file, explain::LogScan& scan) {
  std::error_code failure;
  if (const auto status = std::filesystem::status(file, failure); !std::filesystem::is_regular_file(status) &&
                                                                  !std::filesystem::is_directory(status) &&
                                                                  std::filesystem::exists(status)) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);  // a pipe, such as <(command)
    if (descriptor < 0) return unreadable(file.string());
    Result<void> taken = take_all(descriptor, file.string(), scan);
    ::close(descriptor);
    return taken;
  }
  Result<OpenedFile> opened = open_bytes(file, any_size);
  if (!opened) return std::move(opened).error();
  ProgressBar bar("reading the log");
  std::vector<std::byte> piece(std::size_t{1} << 18U);
  for (;;) {
    const Result<std::size_t> count = opened->bytes->read(piece);
    if (!count) return count.error();
    if (*count == 0) return {};
    if (!scan.take({reinterpret_cast<const char*>(piece.data()), *count})) return no_log(file.string());
    bar.update(opened->bytes->stored_position(), opened->stored_size);
  }
}

/// The first program that prints the clipboard: Wayland's, then X11's.
Result<void> take_clipboard(explain::LogScan& scan) {
  for (const char* const command : {"wl-paste --no-newline 2>/dev/null", "xclip -o -selection clipboard 2>/dev/null",
                                    "xsel --output --clipboard 2>/dev/null", "pbpaste 2>/dev/null"}) {
    std::FILE* const pipe = ::popen(command, "re");
    if (pipe == nullptr) continue;
    const Result<void> taken = take_all(::fileno(pipe), "--clipboard", scan);
    if (::pclose(pipe) == 0 && taken) return {};
  }
  return Error{.what = "there is no clipboard that could be read",
               .where = "--clipboard",
               .remedy = "install wl-clipboard or xclip, or pipe the text: memreel explain < LOG"};
}

bool shows_unicode() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0') {
      const std::string_view locale = value;
      return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
    }
  return false;
}

Json json_of_advice(const explain::Advice& advice) {
  return {{"what", std::string(advice.what)}, {"side_effects", std::string(advice.side_effects)}};
}

Json json_of(const explain::Failure& failure) {
  const explain::Answer answer = explain::answer_to(failure);
  Json figures = Json::object();
  for (std::size_t i = 0; i < explain::field_count; ++i) {
    const auto field = static_cast<explain::Field>(i);
    if (field == explain::Field::device || !failure.figures[field]) continue;
    const bool is_number = field == explain::Field::length || field == explain::Field::fitting;
    figures[std::string(explain::name_of(field)) + (is_number ? "_tokens" : "_bytes")] = *failure.figures[field];
  }
  Json advice = Json::array();
  for (const explain::Advice& one : answer.advice) advice.push_back(json_of_advice(one));
  const auto device = failure.figures[explain::Field::device];
  return {{"line", failure.line},
          {"offset", failure.offset},
          {"count", failure.count},
          {"source", failure.source.empty() ? Json(nullptr) : Json(printable(failure.source))},
          {"framework", std::string(failure.grammar->framework)},
          {"releases", std::string(failure.grammar->releases)},
          {"text", std::string(failure.grammar->name)},
          {"device", device ? Json(*device) : Json(nullptr)},
          {"kind", std::string(explain::text_of(failure.kind).name)},
          {"why", printable(failure.because)},
          {"shortfall_bytes", failure.shortfall ? Json(*failure.shortfall) : Json(nullptr)},
          {"figures", std::move(figures)},
          {"advice", std::move(advice)},
          {"unknown", std::string(answer.unknown)},
          {"record", answer.record.empty() ? Json(nullptr) : Json(answer.record)}};
}

Exit run_explain(const ExplainArguments& arguments) {
  if (arguments.has_log && arguments.log.empty())
    return fail(
        {.what = "LOG has an empty value", .where = "explain", .remedy = "name a file, or '-' for standard input"});
  if (arguments.texts && (arguments.json || arguments.clipboard || arguments.has_log))
    return fail({.what = std::string("both --texts and ") + (arguments.json        ? "--json"
                                                             : arguments.clipboard ? "--clipboard"
                                                                                   : "a log"),
                 .where = "--texts",
                 .remedy = "give one of them"});
  if (arguments.texts) {
    std::cout << explain::errors_page();
    if (Result<void> flushed = flush_output(); !flushed) return fail(flushed.error());
    return Exit::done;
  }
  const bool from_input = !arguments.clipboard && (arguments.log.empty() || arguments.log == "-");
  if (arguments.clipboard && !arguments.log.empty())
    return fail({.what = "both a log and the clipboard", .where = "--clipboard", .remedy = "name one of them"});
  if (from_input && arguments.log.empty() && ::isatty(STDIN_FILENO) != 0)
    return fail(
        {.what = "no log", .where = "LOG", .remedy = "name a file, or pipe one: PROGRAM 2>&1 | memreel explain"});
  explain::LogScan scan;
  const Result<void> taken = arguments.clipboard ? take_clipboard(scan)
                             : !from_input       ? take_file(arguments.log, scan)
                                                 : take_all(STDIN_FILENO, "standard input", scan);
  if (!taken) return fail(taken.error());
  const explain::Findings findings = scan.finish();
  const std::string name = !arguments.name.empty() ? arguments.name
                           : arguments.clipboard   ? "clipboard"
                           : from_input            ? "standard input"
                                                   : arguments.log;
  if (arguments.json) {
    Json failures = Json::array();
    for (const explain::Failure& failure : findings.failures) failures.push_back(json_of(failure));
    print_json({{"schema", "memreel.explain/1"},
                {"log", name},
                {"bytes", findings.bytes},
                {"failures", std::move(failures)},
                {"left_out", findings.left_out}});
  } else {
    const bool unicode = !arguments.ascii && shows_unicode();
    for (const explain::Failure& failure : findings.failures)
      std::cout << explain::text_of(failure, printable(name), unicode);
    if (findings.left_out > 0) std::cout << text_of(findings.left_out) << " more failures are not shown\n";
    if (findings.failures.empty())
      std::cout << printable(name) << ": no failure found in " << text_of(Bytes{findings.bytes}) << '\n';
  }
  if (Result<void> flushed = flush_output(); !flushed) return fail(flushed.error());
  return findings.failures.empty() ? Exit::done : Exit::negative;
}

}  // namespace

void add_explain_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("explain", "Explain out-of-memory errors in a log, without a recording");
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::Option* const log = command->add_option("LOG", arguments->log, "Log, compressed or not [standard input]");
  command->add_option("--name", arguments->name, "What the answer calls the log [its file's name]");
  command->add_flag("--clipboard", arguments->clipboard, "Read the clipboard (wl-paste, xclip, xsel)");
  command->add_flag("--ascii", arguments->ascii, "Draw bars with ASCII characters only");
  command->add_flag("--texts", arguments->texts, "Print the texts that are known and what they mean, as Markdown");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.explain/1) instead of text");
  command->footer(
      "Exit code 1 if a failure was found, or a warning of one; 0 if there is none; 2 if the log can't be read.\n\n"
      "Examples:\n"
      "  memreel explain train.log\n"
      "  python train.py 2>&1 | memreel explain\n"
      "  memreel explain --clipboard");
  command->callback([arguments, log, &exit] {
    arguments->has_log = log->count() > 0;
    exit = run_explain(*arguments);
  });
}

}  // namespace memreel::cli
