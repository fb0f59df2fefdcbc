// SPDX-License-Identifier: Apache-2.0
// Finds failures in a log of any length.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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
/// terminals may have broken lines anywhere.
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

  void scan(bool at_end);
  std::vector<Line> lines_between(std::size_t begin, std::size_t end) const;
  void examine(std::size_t begin, std::size_t end, std::size_t limit);
  void match_in(const std::string& source, const std::vector<Line>& lines, std::size_t limit,
                std::vector<Found>& found) const;
  void accept(Found found);
  void flush(const std::string& source);
  std::uint64_t line_at(std::size_t position);

  const Expressions& expressions_;  // compiled once for all scans
  std::string buffer_;
  std::uint64_t base_ = 0;   // offset of the buffer in the log
  std::size_t scanned_ = 0;  // no key begins before it
  std::size_t handled_ = 0;  // texts that begin before it are done
  std::size_t counted_ = 0;  // where `line_` was counted up to
  std::uint64_t line_ = 1;
  std::uint64_t zeros_ = 0;  // at the beginning
  int wide_ = -1;            // 1: UTF-16, as PowerShell writes it; -1: not yet known
  std::map<std::string, Figures> facts_;
  std::map<std::string, Part> pending_;  // by source
  std::map<std::string, std::size_t> seen_;
  Findings findings_;
};

}  // namespace memreel::explain
