// SPDX-License-Identifier: Apache-2.0
// How well leaks are distinguished from lookalikes, and how fast.
//
//     bench_leaks [DIRECTORY...]    labelled histories (FILE.pickle.xz, FILE.truth.json); default: those in tests/data,
//                                   and shared/histories/leaks where there is one
//     bench_leaks --made-up [SEEDS]  synthetic programs (tests/leak_programs.h), each with that many seeds [200]
//     bench_leaks --speed [EVENTS]  all verdicts on a synthetic trace of that many events [10000000], against a plain
//     pass
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "formats/import/import.h"
#include "formats/model/stack_text.h"
#include "tests/bench/synthetic.h"
#include "tests/histories.h"
#include "tests/leak_programs.h"
#include "tests/leak_score.h"

namespace {

using namespace memreel;  // NOLINT(google-build-using-namespace): a program of one file

std::string per_cent(double ratio) {
  std::ostringstream text;
  text.precision(1);
  text << std::fixed << 100 * ratio;
  return text.str();
}

/// "leak 3, resident 7": the number of stacks per verdict.
std::string verdicts_of(const LeakReport& report) {
  std::map<std::string_view, int> counts;
  for (const LeakFinding& finding : report.findings) ++counts[name_of(finding.verdict)];
  std::string text;
  for (const auto& [verdict, count] : counts)
    text += (text.empty() ? "" : ", ") + std::string(verdict) + " " + std::to_string(count);
  return text;
}

std::string first_accused(const Trace& trace, const LeakReport& report) {
  if (report.findings.empty() || !accuses(report.findings.front().verdict)) return "";
  return text_of(own_frame(frames_of(trace.tables, report.findings.front().stack)));
}

bool score_all(const std::vector<std::filesystem::path>& directories) {
  TextTable table({{"case"},
                   {"leaked", Align::right},
                   {"recall % bytes", Align::right},
                   {"allocations", Align::right},
                   {"precision % bytes", Align::right},
                   {"allocations", Align::right},
                   {"rank", Align::right},
                   {""},
                   {"stacks by verdict"},
                   {"first accused"}});
  std::size_t cases = 0;
  std::size_t held = 0;
  for (const std::filesystem::path& directory : directories) {
    for (const test::LabelledHistory& history : test::labelled_histories(directory)) {
      const Result<Trace> trace = open_any(history.file);
      if (!trace) {
        std::cerr << trace.error().message() << '\n';
        return false;
      }
      const LeakReport report = test::leaks_of(*trace);
      const test::LeakScore score = test::score(*trace, report, history.truth);
      ++cases;
      held += score.holds();
      const bool leaks = score.leaked != 0;
      table.add_row({history.name, std::to_string(score.leaked), leaks ? per_cent(score.byte_recall()) : "-",
                     leaks ? per_cent(score.recall()) : "-", per_cent(score.byte_precision()),
                     per_cent(score.precision()), leaks ? std::to_string(score.rank) : "-",
                     score.holds() ? "" : "WRONG", verdicts_of(report), first_accused(*trace, report)});
    }
  }
  table.print(std::cout, 0, 160);
  std::cout << '\n' << held << " of " << cases << " cases as promised\n";
  return held == cases && cases != 0;
}

void score_made_up(std::uint64_t seeds) {
  TextTable table({{"program"},
                   {"leaks"},
                   {"as promised %", Align::right},
                   {"recall % bytes", Align::right},
                   {"precision % bytes", Align::right},
                   {"wrong seeds"}});
  for (const test::KindOfProgram& kind : test::kinds_of_programs()) {
    std::uint64_t held = 0;
    double recall = 0, precision = 0;
    std::string wrong;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      test::MadeUpProgram program(seed);
      kind.run(program);
      const test::LeakScore score = test::score(program.trace(), test::leaks_of(program.trace()), program.truth());
      held += score.holds();
      recall += score.byte_recall();
      precision += score.leaked == 0 ? (score.accused == 0 ? 1 : 0) : score.byte_precision();
      if (!score.holds() && wrong.size() < 40) wrong += std::to_string(seed) + " ";
    }
    const auto n = static_cast<double>(seeds);
    table.add_row({kind.name, kind.leaks ? "yes" : "no", per_cent(static_cast<double>(held) / n), per_cent(recall / n),
                   per_cent(precision / n), wrong});
  }
  table.print(std::cout, 0, 160);
}

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Peak ("VmHWM") or current ("VmRSS") resident bytes of the process.
std::uint64_t memory_of_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1)) << 10U;
  }
  return 0;
}

void measure(std::uint64_t events) {
  TextTable table({{"trace"},
                   {"events", Align::right},
                   {"verdicts s", Align::right},
                   {"plain pass s", Align::right},
                   {"B/event", Align::right},
                   {"stacks by verdict"}});
  for (const std::uint32_t steps : {1000U, 60U, 0U}) {
    const Trace trace = synthetic_trace({.events = events, .live = 5000, .steps = steps, .stacks = 2000});
    const std::uint64_t before = memory_of_process("VmRSS");
    std::uint64_t sum = 0;
    const double plain = seconds([&] {
      for (std::size_t i = 0; i < trace.events.count(); ++i) {
        if (trace.events.kind(i) == EventKind::alloc) sum += trace.events.size(i).count;
        if (trace.events.kind(i) == EventKind::free_requested) sum -= trace.events.size(i).count;
      }
    });
    LeakReport report;
    const double all = seconds([&] { report = test::leaks_of(trace); });
    const std::uint64_t peak = memory_of_process("VmHWM");
    const auto count = static_cast<double>(trace.events.count());
    std::ostringstream bytes;
    bytes.precision(2);
    bytes << static_cast<double>(peak > before ? peak - before : 0) / count;
    table.add_row({steps == 0 ? "random" : std::to_string(steps) + " steps", std::to_string(trace.events.count()),
                   std::to_string(all), std::to_string(plain) + (sum == 1 ? " " : ""), bytes.str(),
                   verdicts_of(report)});
  }
  table.print(std::cout, 0, 160);
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): a number that is none ends it
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == "--speed") {
    measure(arguments.size() > 1 ? std::stoull(arguments[1]) : 10'000'000);
    return 0;
  }
  if (!arguments.empty() && arguments.front() == "--made-up") {
    score_made_up(arguments.size() > 1 ? std::stoull(arguments[1]) : 200);
    return 0;
  }
  std::vector<std::filesystem::path> directories(arguments.begin(), arguments.end());
  if (directories.empty()) {
    directories.push_back(test::source_directory() / "tests" / "data" / "leaks");
    if (const auto histories = test::history_directory()) directories.push_back(*histories / "leaks");
  }
  return score_all(directories) ? 0 : 1;
}
