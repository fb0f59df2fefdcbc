// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <streambuf>
#include <utility>

#include "formats/writer/trace_writer.h"

namespace memreel::cli {
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

Result<void> must_differ(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(input, output, ignored)) return {};
  return Error{.what = "the output would overwrite the input", .where = output.string(), .remedy = "name another file"};
}

bool is_standard_output(const std::filesystem::path& output) {
  if (output.empty()) return true;
  // std::filesystem::equivalent() does not compare pipes.
  struct stat named {
  }, standard{};
  return ::stat(output.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
         named.st_dev == standard.st_dev && named.st_ino == standard.st_ino;
}

Result<void> leaves_room_for_json(const std::filesystem::path& output) {
  if (!is_standard_output(output)) return {};
  return Error{.what = "--json writes to standard output, where the output itself goes",
               .where = "--json",
               .remedy = "name a file with -o"};
}

Result<void> flush_output() {
  if (std::cout.flush()) return {};
  return Error{
      .what = "can't write everything", .where = "standard output", .remedy = "is the disk full, or the pipe closed?"};
}

}  // namespace memreel::cli
