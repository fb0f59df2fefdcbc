// SPDX-License-Identifier: Apache-2.0
// Finds failures in a log of any length.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {

/// What was found in a log.
struct Findings {
  std::vector<Failure> failures;  // in the order of the log; equal ones once, with a count
  std::uint64_t left_out = 0;     // beyond `most_failures`
  std::uint64_t bytes = 0;        // read
};

/// Takes a log in pieces of any size. Memory is bounded whatever the log: lines may have any length, also none. Colours
/// and what launchers and loggers put before each line are ignored; lines of several ranks may be interleaved, and
/// terminals and collectors may have broken lines anywhere. UTF-16 is read with and without its mark, also in a part of
/// the log, and journald's messages also where they are lists of bytes.
class LogScan {
 public:
  static constexpr std::size_t most_failures = 10'000;

  LogScan();
  LogScan(const LogScan&) = delete;
  LogScan& operator=(const LogScan&) = delete;
  ~LogScan();

  /// False if what it was given so far can't be a log's: not text, or zeros only.
  bool take(std::string_view piece);
  /// At the end of the log; once.
  Findings finish();

 private:
  struct Expressions;
  struct Found;
  struct Line;
  struct Part;

  void narrow(bool at_end);
  void join(bool at_end);
  std::size_t behind_container_prefix(std::size_t line);
  std::size_t read_byte_list(std::size_t at, std::size_t end);
  void scan(bool at_end);
  std::vector<Line> lines_between(std::size_t begin, std::size_t end) const;
  void remove_prefixes(Line& line) const;
  static bool was_broken_before(const Line& line, const Line* last, const Line* last_but_one);
  void examine(std::size_t begin, std::size_t end, std::size_t limit);
  void match_in(const std::string& source, const std::vector<Line>& lines, std::size_t limit,
                std::vector<Found>& found) const;
  void accept(Found found);
  void flush(const std::string& source);
  std::uint64_t offset_of(std::size_t position) const;
  void note_what_was_skipped(std::size_t at);
  std::uint64_t line_at(std::size_t position);

  const Expressions& expressions_;  // compiled once for all scans
  std::string taken_;               // as it came; up to `narrowed_` kept as context only
  std::size_t narrowed_ = 0;        // of `taken_`
  std::uint64_t text_base_ = 0;     // offset of the following
  std::string text_;                // without the zeros of UTF-16; moved to the buffer once it is known what follows
  std::string stream_;              // of containerd: its last line goes on in the next one
  std::optional<unsigned> byte_;    // of a list of bytes, as far as its digits were read
  bool in_byte_list_ = false, begun_ = false;
  std::string buffer_;
  std::uint64_t base_ = 0;   // offset of the buffer in all that was moved to it
  std::size_t scanned_ = 0;  // no key begins before it
  std::size_t handled_ = 0;  // texts that begin before it are done
  std::size_t counted_ = 0;  // where `line_` was counted up to
  std::uint64_t line_ = 1;
  std::uint64_t zeros_ = 0;                                       // at the beginning
  std::vector<std::pair<std::uint64_t, std::uint64_t>> skipped_;  // before an offset of the buffer; in all, in bytes
  std::map<std::string, Figures> facts_;
  std::map<std::string, Part> pending_;  // by source
  std::map<std::string, std::size_t> seen_;
  Findings findings_;
};

}  // namespace memreel::explain
