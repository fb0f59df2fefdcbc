// memreel: reads, replays and judges traces. What needs another room's program (recording, viewing) is found beside
// this one and run in its place, as git does.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "analyzer/cli/commands.h"
#include "memreel/version.h"

namespace {

using memreel::cli::Exit;

// Commands that are programs of their own: memreel-record and so on, in the directory of this program.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> siblings{{{"record", "memreel-record"},
                                                                                 {"attach", "memreel-attach"},
                                                                                 {"detach", "memreel-attach"},
                                                                                 {"view", "memreel-view"}}};

// Does not return when the sibling could be started.
Exit run_sibling(std::string_view command, std::string_view program, char** arguments) {
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::string path = (self.parent_path() / program).string();
  execv(path.c_str(), arguments);
  return memreel::cli::fail({.what = "'memreel " + std::string(command) + "' needs the program " +
                                     std::string(program) + ", which this build does not have",
                             .where = path,
                             .remedy = "PyTorch runs can be recorded with torch.cuda.memory._record_memory_history and "
                                       "imported, see the README"});
}

int run(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  if (argc > 1) {
    for (const auto& [command, program] : siblings) {
      if (command == argv[1]) return static_cast<int>(run_sibling(command, program, argv));
    }
  }

  CLI::App app("memreel replays what a program did with GPU memory against any allocator.", "memreel");
  app.set_version_flag("--version", "memreel " + std::string(memreel::version));
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of every command");
  app.footer(
      "Every command takes a .reel trace or any file that import reads.\n\n"
      "Examples:\n"
      "  memreel info snapshot.pickle\n"
      "  memreel replay snapshot.pickle --policy torch.native,fit.best\n"
      "  memreel tune snapshot.pickle\n"
      "  memreel report snapshot.pickle --by line\n\n"
      "Exit code: 0 done; 1 the answer is no; 2 bad usage or input that can't be read.");
  Exit exit = Exit::done;
  memreel::cli::add_info_command(app, exit);
  memreel::cli::add_report_command(app, exit);
  memreel::cli::add_replay_command(app, exit);
  memreel::cli::add_tune_command(app, exit);
  memreel::cli::add_verify_command(app, exit);
  memreel::cli::add_check_command(app, exit);
  memreel::cli::add_diff_command(app, exit);
  memreel::cli::add_import_command(app, exit);
  memreel::cli::add_export_command(app, exit);
  memreel::cli::add_symbols_command(app, exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return static_cast<int>(memreel::cli::fail({.what = problem.what(), .remedy = "see memreel --help"}));
  }
  return static_cast<int>(exit);
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& problem) {
  // Only exhaustion is left: no function of this project throws.
  std::fprintf(stderr, "memreel: error: %s\n", problem.what());
  return static_cast<int>(Exit::unusable);
}
