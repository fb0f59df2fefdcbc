// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/program.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "analyzer/cli/flight_dump.h"
#include "formats/command_line/help.h"
#include "formats/command_line/option_values.h"
#include "formats/command_line/parse_errors.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "memreel/version.h"

namespace memreel::cli {

void add_commands(CLI::App& app, Exit& exit) {
  add_info_command(app, exit);
  add_explain_command(app, exit);
  add_report_command(app, exit);
  add_replay_command(app, exit);
  add_tune_command(app, exit);
  add_predict_command(app, exit);
  add_plan_command(app, exit);
  add_policies_command(app, exit);
  add_verify_command(app, exit);
  add_check_command(app, exit);
  add_diff_command(app, exit);
  add_fleet_command(app, exit);
  add_import_command(app, exit);
  add_export_command(app, exit);
  add_symbols_command(app, exit);
  add_demo_command(app, exit);
}

namespace {

constexpr std::array<Sibling, 8> programs{{
    {"record", "memreel-record", "Run a program and record its GPU memory use"},
    {"attach", "memreel-attach", "Record a running program; --live shows who holds its memory"},
    {"detach", "memreel-attach", "Stop recording a running program"},
    {"dump", "memreel-attach", "Dump flight recordings to files"},
    {"holders", "memreel-attach", "Show which Python variables of a recorded program keep its memory"},
    {"top", "memreel-top", "Show the memory of all recorded processes on this machine"},
    {"browse", "", "Browse a trace in a terminal: timeline, who holds what, verdicts"},
    {"view", "memreel-view", "Browse a trace in a window: timeline, map, heap, verdicts"},
}};

struct Group {
  const char* title;
  std::vector<const char*> commands;
};

const std::array<Group, 6>& groups() {
  static const std::array<Group, 6> all{{
      {"See it work", {"demo"}},
      {"Record", {"record", "attach", "detach", "dump", "holders", "top", "import", "symbols"}},
      {"Find out who holds the memory, what leaks, and why it ran out",
       {"explain", "report", "browse", "view", "diff", "info", "export"}},
      {"Find out what would need less memory", {"tune", "replay", "policies", "verify", "predict", "plan"}},
      {"Judge all ranks of a job", {"fleet"}},
      {"Keep it that way in continuous integration", {"check"}},
  }};
  return all;
}

std::vector<std::string> commands_of(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

}  // namespace

std::span<const Sibling> siblings() { return programs; }

void arrange_commands(CLI::App& app) {
  for (const Sibling& sibling : programs)
    app.add_subcommand(std::string(sibling.command), std::string(sibling.description));
  // Help shows groups in the order of the commands.
  std::vector<CLI::App_p> order;
  const std::vector<std::string> known = commands_of(app);
  for (const Group& group : groups())
    for (const char* name : group.commands)
      if (std::ranges::find(known, name) != known.end()) {
        order.push_back(app.get_subcommand_ptr(std::string(name)));
        order.back()->group(group.title);
      }
  for (const CLI::App_p& command : order) {
    app.remove_subcommand(command.get());
    app.add_subcommand(command);
  }
}

std::optional<Error> unknown_word(CLI::App& app, std::span<char* const> words) {
  if (words.empty() || words.front()[0] == '-') return std::nullopt;
  const std::string name = words.front();
  const std::vector<std::string> commands = commands_of(app);
  if (std::ranges::find(commands, name) == commands.end()) {
    std::error_code ignored;
    std::string otherwise = "memreel --help lists the commands";
    if (std::filesystem::is_regular_file(name, ignored)) otherwise = "try memreel report " + shell_word(name);
    return Error{.what = "unknown command '" + name + "'", .remedy = suggestion(name, commands, otherwise)};
  }
  const CLI::App* command = app.get_subcommand(name);
  std::vector<std::string> options = long_options(*command);
  for (const std::string_view word : words.subspan(1)) {
    if (word == "--") break;
    if (!word.starts_with("--")) {
      // fleet map, fleet merge
      const auto parts = command->get_subcommands([&](const CLI::App* part) { return part->get_name() == word; });
      if (parts.empty()) continue;
      command = parts.front();
      std::ranges::copy(long_options(*command), std::back_inserter(options));
      continue;
    }
    const std::string_view option = word.substr(0, word.find('='));
    if (std::ranges::find(options, option) == options.end()) return unknown_option("memreel " + name, option, options);
  }
  return std::nullopt;
}

namespace {

// Returns only if the sibling could not be started.
Exit run_sibling(std::string_view command, std::string_view program, char** arguments) {
  if (program.empty())
    return fail({.what = "this memreel was built without memreel " + std::string(command),
                 .remedy = "build it with ncursesw (libncurses-dev), or print memreel report TRACE"});
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::string path = (self.parent_path() / program).string();
  execv(path.c_str(), arguments);
  return fail({.what = "memreel " + std::string(command) + " needs the program " + std::string(program) +
                       ", which is not installed",
               .where = path,
               .remedy = command == "view" ? "build it with OpenGL and GLFW, or see it in a browser: "
                                             "memreel view --serve TRACE"
                                           : "PyTorch can record itself with "
                                             "torch.cuda.memory._record_memory_history(); see the README"});
}

/// An option that prints where a build finds memreel.h and policy.h.
struct HeaderPlace {
  const char* option;
  const char* path;    // from the installation's folder
  const char* within;  // what has to be there
  const char* before;  // of the path, in the output
  const char* description;
};

constexpr std::array<HeaderPlace, 3> header_places{{
    {"--cmake-dir", "share/cmake/memreel", "memreelConfig.cmake", "",
     "Print the folder for CMake: -D memreel_DIR=$(memreel --cmake-dir)"},
    {"--includes", "include", "memreel/memreel.h", "-I", "Print the compiler's option for the headers"},
    {"--pkgconfig-dir", "share/pkgconfig", "memreel.pc", "", "Print the folder for PKG_CONFIG_PATH"},
}};

Exit print(const HeaderPlace& place) {
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::filesystem::path folder = self.parent_path().parent_path() / place.path;
  if (!std::filesystem::exists(folder / place.within, problem))
    return fail({.what = "the headers are not installed with this program",
                 .where = (folder / place.within).string(),
                 .remedy = "install libmemreel-dev, or cmake --install the component headers; see docs/install.md"});
  std::cout << place.before << folder.string() << '\n';
  return Exit::done;
}

/// Other programs take this for standard input or output.
bool is_dash(const char* word) { return std::string_view(word) == "-"; }

/// Returns `exit`, unless the command's output could not be written.
Exit printed(Exit exit) {
  const Result<void> flushed = flush_output();
  return flushed || exit == Exit::unusable ? exit : fail(flushed.error());
}

}  // namespace

Exit run(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (asks_to_serve(words)) return printed(serve_view(words));
  if (argc > 1) {
    for (const Sibling& sibling : siblings())
      if (sibling.command == argv[1]) return run_sibling(sibling.command, sibling.program, argv);
  }

  // Commands called by programs, not by users.
  if (argc > 1 && std::string_view(argv[1]) == "flight-dump") return flight_dump(words.subspan(2));
  if (argc > 1 && std::string_view(argv[1]) == "failure-lines") return say_failure_lines(words.subspan(2));

  CLI::App app("memreel records what a program does with GPU memory and replays it against any allocator.", "memreel");
  fit_help(app);
  app.set_version_flag("--version", "memreel " + std::string(version));
  Exit exit = Exit::done;
  for (const HeaderPlace& place : header_places)
    app.add_flag_callback(
        place.option,
        [&exit, &place] {
          exit = print(place);
          throw CLI::Success();
        },
        place.description);
  app.require_subcommand(1);
  app.footer(
      "A TRACE is a .reel file, or any file that memreel import reads.\n\n"
      "Examples:\n"
      "  memreel record python train.py\n"
      "  memreel report snapshot.pickle\n"
      "  memreel tune snapshot.pickle\n"
      "  memreel check snapshot.pickle --max-reserved 9GiB\n\n"
      "Exit code: 0 done; 1 the answer is no; 2 bad usage or unreadable input.");
  add_commands(app, exit);
  arrange_commands(app);
  // After the commands, which would inherit it.
  app.set_help_all_flag("--help-all", "Print the help of all commands, of those that are other programs one line");
  if (const auto problem = unknown_word(app, words.subspan(1))) return fail(*problem);
  if (argc > 1 && std::string_view(argv[1]) != "explain" && std::ranges::any_of(words, is_dash))
    return fail({.what = "'-' is no file", .remedy = "write to /dev/stdout; save what comes from a pipe to a file"});
  if (const auto problem = empty_value(words.subspan(1))) return fail(*problem);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond a limit is an error like others
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) {
      const Exit helped = static_cast<Exit>(app.exit(problem));
      return printed(exit == Exit::done ? helped : exit);
    }
    return fail(usage_error(app, problem));
  }
  return printed(exit);
}

Result<Bytes> parse_size(std::string_view text, const char* option) {
  Result<Bytes> size = parse_bytes(text);
  if (!size) size.error().where = option;
  return size;
}

Result<Bytes> parse_limit(std::string_view text, const char* option) {
  Result<Bytes> size = parse_size(text, option);
  const bool is_bare = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (!size || !is_bare || *size == 0_B || *size >= 1_MiB) return size;
  return Error{.what = text_of(size->count) + (size->count == 1 ? " byte?" : " bytes?"),
               .where = option,
               .remedy = "write " + std::string(text) + "GiB, or " + std::string(text) + "B"};
}

Result<Bytes> parse_capacity_size(std::string_view text) {
  Result<Bytes> size = parse_device_size(text);
  if (!size) size.error().where = "--capacity";
  if (!size && !parse_bytes(text)) size.error().remedy += "; cards are for memreel predict and view";
  return size;
}

Result<std::optional<DeviceModel>> parse_capacity(std::string_view text) {
  if (text.empty()) return std::optional<DeviceModel>{};
  if (text == "unlimited") return std::optional(DeviceModel{});
  Result<Bytes> capacity = parse_capacity_size(text);
  if (!capacity) return std::move(capacity).error();
  return std::optional(DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity});
}

Result<std::vector<PolicySpec>> parse_policy_lists(std::span<const std::string> texts) {
  std::vector<PolicySpec> specs;
  for (const std::string& text : texts) {
    Result<std::vector<PolicySpec>> parsed = parse_policies(text);
    if (!parsed) return parsed;
    specs.insert(specs.end(), parsed->begin(), parsed->end());
  }
  return specs;
}

void add_seconds_option(CLI::App& command, double& seconds) {
  add_number(command, "--seconds", seconds, any_seconds,
             "End all replays after so many seconds [" + text_of(seconds, 0) + "]");
}

std::chrono::steady_clock::time_point deadline_after(double seconds) {
  const std::chrono::duration<double> time(seconds);
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
}

}  // namespace memreel::cli
