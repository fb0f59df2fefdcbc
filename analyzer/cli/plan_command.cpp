// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>
#include <thread>

#include "analyzer/analysis/analysis.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/cli/report.h"
#include "analyzer/replay/plan/plan.h"
#include "analyzer/replay/plan/planned.h"
#include "analyzer/replay/plan/problem.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/torch_rules.h"
#include "formats/command_line/option_values.h"
#include "formats/import/minimalloc.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/model/wrapping.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

struct PlanArguments {
  fs::path file;
  Bytes memory_limit;
  fs::path output;
  std::string capacity, heap;
  std::uint64_t align = 0;  // 0: as the input needs
  plan::Effort effort = plan::effort_to_keep;
  double seconds = 0;
  unsigned threads = 0;
  std::optional<std::uint64_t> step;
  bool json = false;
};

/// What is planned, in the order of its requests.
struct PlanInput {
  std::vector<plan::Buffer> buffers;
  std::vector<std::string> ids;
  Bytes align;                              // of all; buffers may have more
  std::optional<std::vector<Bytes>> hints;  // an offset for every buffer
  std::vector<Prepared> heaps;              // of a trace: the one that is planned
};

PlanInput input_of(const std::vector<MinimallocBuffer>& rows) {
  PlanInput input{.align = 1_B, .hints = std::vector<Bytes>()};
  for (const MinimallocBuffer& row : rows) {
    plan::Buffer& buffer = input.buffers.emplace_back();
    buffer = {.lower = row.lower, .upper = row.upper, .size = row.size, .align = {row.alignment}, .offset = row.offset};
    for (const auto& [lower, upper] : row.gaps) buffer.gaps.push_back({lower, upper});
    input.ids.push_back(row.id.empty() ? std::to_string(input.ids.size()) : row.id);
    if (!row.hint) input.hints.reset();
    if (input.hints) input.hints->push_back(*row.hint);
  }
  return input;
}

/// The rows of a step, from 1 on: of those that the program marked or, if it marked none, of those that it does
/// (rounds.h). Fails if there is no such step.
Result<plan::TimeRange> time_of_step(const Trace& trace, const Prepared& heap, std::uint64_t step) {
  const std::vector<std::uint32_t> ends = Analysis(trace).step_ends(heap);
  const auto rows = step == 0 ? std::nullopt : rows_of_step(ends, step - 1);
  if (rows) return *rows;
  const std::uint64_t count = ends.size();
  return Error{.what = count == 0 ? "shows no steps: without --step all of it is planned"
                                  : "has " + counted(count, "step") + ": --step takes " +
                                        (count == 1 ? "1" : "1 to " + text_of(count))};
}

Result<PlanInput> input_of(const Trace& trace, const PlanArguments& arguments) {
  std::vector<Prepared> heaps = prepare(trace);
  if (arguments.heap.empty()) heaps = only_requests(std::move(heaps));
  if (!heaps.empty())
    if (const Result<void> left = leave_heap(trace.tables, arguments.heap, heaps); !left) return left.error();
  if (heaps.empty()) return Error{.what = "holds no allocations to plan", .where = arguments.file.string()};
  if (const Result<void> known = must_have_history(trace, arguments.file); !known) return known.error();
  const auto most_alive = [](const Prepared& heap) { return busiest_of(heap).alive; };
  const auto largest = std::ranges::max_element(heaps, {}, most_alive);
  if (heaps.size() > 1)
    note("the heap that holds most is planned, " + heap_title(trace.tables, largest->heap) + "; " +
         (heaps.size() == 2 ? "the other is not" : "the " + text_of(heaps.size() - 1) + " others are not"));
  PlanInput input{.buffers = buffers_of(*largest), .align = 512_B};
  plan::TimeRange time{.lower = 0, .upper = largest->count()};
  if (arguments.step) {
    const Result<plan::TimeRange> rows = time_of_step(trace, *largest, *arguments.step);
    if (!rows) return Error{.what = rows.error().what, .where = arguments.file.string()};
    time = *rows;
  }
  Stretch alive = alive_within(input.buffers, time);
  input.buffers = std::move(alive.buffers);
  for (const std::size_t number : alive.numbers) input.ids.push_back(std::to_string(number));
  Prepared planned = std::move(*largest);
  input.heaps.push_back(std::move(planned));
  return input;
}

/// FNV-1a over the requested sizes, 8 bytes each, little-endian, in order of request: a program can compute it as it
/// goes, to see that it does what was planned.
std::uint64_t hash_of_requests(std::span<const plan::Buffer> buffers) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const plan::Buffer& buffer : buffers)
    for (unsigned shift = 0; shift < 64; shift += 8)
      hash = (hash ^ ((buffer.size.count >> shift) & 0xFFU)) * 0x100000001B3;
  return hash;
}

/// Pools that a program can choose.
constexpr std::string_view pools = "torch.native,torch.expandable,cuda.async,tf.bfc,cupy.pool";

/// The one of them that would need least.
struct BestAllocator {
  std::string policy;
  Bytes reserved;
};

std::optional<BestAllocator> best_allocator(const Trace& trace, const PlanInput& input) {
  Result<std::vector<PolicySpec>> specs = parse_policies(std::string(pools));
  const Result<TorchRules> rules = torch_rules(trace, input.heaps, {});
  if (!specs || !rules) return std::nullopt;
  set_torch_rules(*specs, *rules);
  const Result<std::vector<ReplayResult>> results = replay(input.heaps, *specs, {.device = DeviceModel{}});
  if (!results) return std::nullopt;  // the heap is the driver's, of a program that pools
  const ReplayResult& least = *std::ranges::min_element(*results, {}, &ReplayResult::peak_reserved);
  return BestAllocator{.policy = least.policy.name, .reserved = least.peak_reserved};
}

/// What the memory that the plan is for has to be aligned to.
Bytes strictest_align(const PlanInput& input, const plan::Options& options) {
  Bytes most = options.align;
  for (const plan::Buffer& buffer : input.buffers) most = std::max(most, buffer.align);
  return most;
}

enum class Fits : std::uint8_t { yes, no, unknown };

Fits fits(const plan::Plan& plan, Bytes capacity) {
  if (plan.peak <= capacity) return Fits::yes;
  return plan.bound > capacity ? Fits::no : Fits::unknown;
}

/// The bound that ended the search; the searches of a problem that is too large for a complete one are by effort, too.
enum class StoppedBy : std::uint8_t { nothing, effort, seconds };

struct Planning {
  plan::Options options;
  StoppedBy stopped_by = StoppedBy::nothing;
  plan::Plan plan;
  double seconds = 0;
  std::optional<BestAllocator> best;
};

Json document_of(const PlanArguments& arguments, const PlanInput& input, const Planning& planning) {
  const plan::Plan& plan = planning.plan;
  const std::optional<Bytes> capacity = planning.options.capacity;
  Json fit = nullptr;
  if (capacity && fits(plan, *capacity) != Fits::unknown) fit = fits(plan, *capacity) == Fits::yes;
  Json document{{"schema", "memreel.plan/1"},
                {"trace", arguments.file.string()},
                {"buffers", input.buffers.size()},
                {"requests_hash", hex_of(hash_of_requests(input.buffers))},
                {"align", strictest_align(input, planning.options).count},
                {"capacity_bytes", capacity ? Json(capacity->count) : Json(nullptr)},
                {"fits", fit},
                {"peak_bytes", plan.peak.count},
                {"bound_bytes", plan.bound.count},
                {"load_bytes", plan.load.count},
                {"gap", plan.gap()},
                {"proved", plan.proved()},
                {"method", plan.method},
                {"stopped_by", planning.stopped_by == StoppedBy::nothing  ? Json(nullptr)
                               : planning.stopped_by == StoppedBy::effort ? Json("effort")
                                                                          : Json("seconds")},
                {"seconds", planning.seconds}};
  document["best_allocator"] = nullptr;
  if (planning.best)
    document["best_allocator"] = {{"policy", planning.best->policy},
                                  {"peak_reserved_bytes", planning.best->reserved.count}};
  document["allocations"] = Json::array();
  for (std::size_t i = 0; i < input.buffers.size(); ++i)
    document["allocations"].push_back({{"id", input.ids[i]},
                                       {"lower", input.buffers[i].lower},
                                       {"upper", input.buffers[i].upper},
                                       {"bytes", input.buffers[i].size.count},
                                       {"offset", plan.offsets[i].count}});
  return document;
}

void write_csv(const PlanInput& input, const plan::Plan& plan, std::ostream& out) {
  const bool with_align = std::ranges::any_of(input.buffers, [](const plan::Buffer& b) { return b.align > 1_B; });
  const bool with_gaps = std::ranges::any_of(input.buffers, [](const plan::Buffer& b) { return !b.gaps.empty(); });
  out << "id,lower,upper,size," << (with_align ? "alignment," : "") << (with_gaps ? "gaps," : "") << "offset\n";
  for (std::size_t i = 0; i < input.buffers.size(); ++i) {
    const plan::Buffer& buffer = input.buffers[i];
    out << input.ids[i] << ',' << buffer.lower << ',' << buffer.upper << ',' << buffer.size.count << ',';
    if (with_align) out << buffer.align.count << ',';
    for (std::size_t g = 0; g < buffer.gaps.size(); ++g)
      out << (g == 0 ? "" : " ") << buffer.gaps[g].lower << '-' << buffer.gaps[g].upper;
    out << (with_gaps ? "," : "") << plan.offsets[i].count << '\n';
  }
}

/// For C99 and C++, as one array in order of request.
void write_header(const PlanInput& input, const Planning& planning, std::ostream& out) {
  out << "/* Offsets of the allocations, in order of request. Written by memreel plan. */\n"
         "#ifndef MEMREEL_PLAN_H\n#define MEMREEL_PLAN_H\n\n#include <stdint.h>\n\n"
      << "#define MEMREEL_PLAN_COUNT " << input.buffers.size() << "\n#define MEMREEL_PLAN_BYTES "
      << planning.plan.peak.count << "u\n#define MEMREEL_PLAN_ALIGN " << strictest_align(input, planning.options).count
      << "u\n"
      << "/* FNV-1a over the requested sizes, 8 bytes each, little-endian. */\n#define MEMREEL_PLAN_REQUESTS_HASH 0x"
      << hex_of(hash_of_requests(input.buffers)) << "u\n\nstatic const uint64_t memreel_plan_offsets[] = {\n";
  for (const Bytes offset : planning.plan.offsets) out << "    " << offset.count << "u,\n";
  out << "};\n\n#endif\n";
}

Result<void> write_plan(const PlanArguments& arguments, const PlanInput& input, const Planning& planning) {
  const std::string ending = arguments.output.extension().string();
  return write_output(arguments.output, [&](std::ostream& out) -> Result<void> {
    if (ending == ".json")
      print_json(document_of(arguments, input, planning), out);
    else if (ending == ".h")
      write_header(input, planning, out);
    else
      write_csv(input, planning.plan, out);
    return {};
  });
}

void print_plan(const PlanInput& input, const Planning& planning) {
  const plan::Plan& plan = planning.plan;
  std::string needs = "a static plan of " + counted(input.buffers.size(), "allocation") + " needs " +
                      text_of(plan.peak) + " (" + text_of(plan.peak.count) + " bytes)";
  if (planning.best && planning.best->reserved > plan.peak)
    needs +=
        ", " +
        text_of_share(1 - static_cast<double>(plan.peak.count) / static_cast<double>(planning.best->reserved.count)) +
        " less than " + planning.best->policy + ", the best of the pools tried (" + text_of(planning.best->reserved) +
        ')';
  std::cout << wrapped(needs, 0)
            << wrapped("bound: " + text_of(plan.bound.count) + " bytes, gap " + text_of_share(plan.gap()) +
                           (plan.proved() ? ": no plan needs less" : ""),
                       2)
            << wrapped("method: " + std::string(plan.method), 2);
  if (planning.stopped_by != StoppedBy::nothing)
    std::cout << wrapped("stopped by " +
                             (planning.stopped_by == StoppedBy::seconds
                                  ? "--seconds"
                                  : "--effort, " + text_of(planning.options.effort) + " sections visited") +
                             ": a longer search may find a lower peak",
                         2);
  if (!planning.options.capacity) return;
  const Bytes capacity = *planning.options.capacity;
  const Fits answer = fits(plan, capacity);
  std::cout << wrapped("capacity " + text_of(capacity.count) + " bytes: " +
                           (answer == Fits::yes  ? "fits"
                            : answer == Fits::no ? "too small, proved"
                                                 : "no plan found; a higher --effort may find one"),
                       2);
}

/// On a terminal: the best plan so far, the bound and the gap.
class ProgressLine {
 public:
  ProgressLine() : is_shown_(isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;
  }

  void update(Bytes peak, Bytes bound) const {
    if (!is_shown_ || bound == 0_B) return;
    const double gap = static_cast<double>(peak.count) / static_cast<double>(bound.count) - 1;
    std::cerr << "\rplanning: " + text_of(peak) + ", bound " + text_of(bound) + ", gap " + text_of_share(gap) + "\x1b[K"
              << std::flush;
  }

 private:
  bool is_shown_;
};

/// Makes the plan, and checks it.
Result<Planning> plan_of(const PlanInput& input, const plan::Options& options, double seconds) {
  Planning planning{.options = options};
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  if (seconds > 0) planning.options.stop = [&] { return elapsed() > seconds; };
  const auto fault = [&](std::span<const Bytes> offsets, std::optional<Bytes> capacity) {
    return plan::fault_of(input.buffers, offsets, {.align = options.align, .capacity = capacity});
  };
  planning.plan = plan::plan_best(input.buffers, planning.options);
  if (input.hints && !fault(*input.hints, planning.plan.peak - 1_B)) {
    planning.plan.offsets = *input.hints;
    planning.plan.method = "given";
    planning.plan.peak = {};
    for (std::size_t i = 0; i < input.buffers.size(); ++i)
      planning.plan.peak = std::max(planning.plan.peak, planning.plan.offsets[i] + input.buffers[i].size);
  }
  const bool around_fixed =
      std::ranges::any_of(input.buffers, &plan::Buffer::is_fixed);  // without a search that could go on
  const bool answers = planning.plan.proved() || around_fixed ||
                       (options.capacity && fits(planning.plan, *options.capacity) != Fits::unknown);
  if (!answers) planning.stopped_by = seconds > 0 && elapsed() > seconds ? StoppedBy::seconds : StoppedBy::effort;
  planning.options.stop = {};
  planning.options.progress = {};
  planning.seconds = elapsed();
  if (const auto found = fault(planning.plan.offsets, planning.plan.peak)) {
    if (around_fixed)
      return Error{.what = "the offsets of the file are no plan: " + *found + ", counting from 0",
                   .remedy = "correct them, or name the column hint"};
    return Error{.what = "the plan is wrong: " + *found, .remedy = "please report this"};
  }
  return planning;
}

Exit run_plan(const PlanArguments& arguments) {
  if (arguments.json)
    if (Result<void> room = leaves_room_for_json(arguments.output.empty() ? "plan" : arguments.output); !room)
      return fail(room.error());
  if (Result<void> differ = must_differ(arguments.file, arguments.output); !differ) return fail(differ.error());
  const std::string ending = arguments.output.extension().string();
  if (!arguments.output.empty() && ending != ".csv" && ending != ".json" && ending != ".h")
    return fail({.what = "a plan is written as .csv, .json or .h", .where = arguments.output.string()});
  plan::Options options{.effort = arguments.effort};
  options.threads = arguments.threads > 0 ? arguments.threads : std::max(1U, std::thread::hardware_concurrency());
  if (!arguments.capacity.empty()) {
    const Result<Bytes> capacity = parse_size(arguments.capacity, "--capacity");
    if (!capacity) return fail(capacity.error());
    options.capacity = *capacity;
  }

  bound_memory(std::span(&arguments.file, 1), arguments.memory_limit);
  Result<std::optional<std::vector<MinimallocBuffer>>> rows = read_minimalloc(arguments.file);
  if (!rows) return fail(rows.error());
  std::optional<Trace> trace;
  if (!*rows) {
    Result<Trace> opened = open_input(arguments.file, arguments.memory_limit);
    if (!opened) return fail(opened.error());
    trace = *std::move(opened);
  }
  const Result<PlanInput> input = trace ? input_of(*trace, arguments) : Result<PlanInput>(input_of(**rows));
  if (!input) return fail(input.error());
  options.align = std::max(input->align, Bytes{arguments.align});
  if (arguments.align != 0) {
    if ((arguments.align & (arguments.align - 1)) != 0 || arguments.align > (std::uint64_t{1} << 30U))
      return fail({.what = "not a power of two up to 1 GiB", .where = "--align"});
    if (trace) options.align = Bytes{arguments.align};
  }
  const Bytes align = strictest_align(*input, options);
  Bytes total;
  for (const plan::Buffer& buffer : input->buffers) {
    const Bytes size = round_up(buffer.size + align, align);
    if (size.count > (std::uint64_t{1} << 62U) - total.count)
      return fail({.what = "the sizes add up to more than 2^62 bytes", .where = arguments.file.string()});
    total += size;
  }

  Result<Planning> planning = [&] {
    const ProgressLine line;
    options.progress = [&](Bytes peak, Bytes bound) { line.update(peak, bound); };
    return plan_of(*input, options, arguments.seconds);
  }();
  if (!planning) return fail(planning.error());
  if (trace && !arguments.step) planning->best = best_allocator(*trace, *input);
  if (!arguments.output.empty())
    if (const Result<void> written = write_plan(arguments, *input, *planning); !written) return fail(written.error());
  if (arguments.json) {
    print_json(document_of(arguments, *input, *planning));
  } else if (!is_standard_output(arguments.output) || arguments.output.empty()) {
    print_plan(*input, *planning);
  }
  return options.capacity && fits(planning->plan, *options.capacity) != Fits::yes ? Exit::negative : Exit::done;
}

}  // namespace

void add_plan_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand(
      "plan", "Place every allocation of a program in advance, for those who place tensors themselves");
  const auto arguments = std::make_shared<PlanArguments>();
  add_trace_options(*command, arguments->file, arguments->memory_limit);
  command->add_option("-o,--output", arguments->output, "Plan to write: .csv (minimalloc's), .json or .h");
  command->add_option("--capacity", arguments->capacity,
                      "Is there a plan of at most this size? Exit code 1 if none was found [the least peak]");
  add_heap_option(*command, arguments->heap, "Plan", " [the one that holds most at its peak]");
  constexpr std::uint64_t most = std::uint64_t{1} << 62U;
  constexpr std::uint64_t most_threads = 1024;
  add_whole_number(*command, "--align", arguments->align, {1, most},
                   "Alignment of offsets, a power of two [512; in a CSV its own, else 1]");
  add_whole_number(*command, "--step", arguments->step, {0, any_count},
                   "Only what is alive in step N, from 1 on; memreel info counts them");
  add_whole_number(*command, "--effort", arguments->effort, {0, most},
                   "How long to search, in sections visited [" + text_of(arguments->effort) + ": seconds]");
  add_number(*command, "--seconds", arguments->seconds, any_seconds,
             "Stop after so many seconds with the best plan so far");
  add_whole_number(*command, "--threads", arguments->threads, {1, most_threads},
                   "Threads of the search; they don't change the plan [one per core]");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.plan/1) instead of text");
  command->footer(
      "Examples:\n"
      "  memreel plan run.pickle --step 3 -o plan.csv\n"
      "  memreel plan model.csv --capacity 1048576 -o plan.h\n"
      "  memreel plan model.csv --json | jq .gap");
  command->callback([arguments, &exit] { exit = run_plan(*arguments); });
}

}  // namespace memreel::cli
