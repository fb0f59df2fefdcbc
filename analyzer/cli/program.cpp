#include "analyzer/cli/program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/flight_dump.h"
#include "analyzer/cli/help.h"
#include "analyzer/cli/helper.h"
#include "analyzer/cli/output_file.h"
#include "memreel/version.h"

namespace memreel::cli {
namespace {

// Returns only if the sibling could not be started.
Exit run_sibling(std::string_view command, std::string_view program, char** arguments) {
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
  set_formatter(app);
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.footer(
      "A TRACE is a .reel file, or any file that memreel import reads.\n\n"
      "Examples:\n"
      "  memreel record python train.py\n"
      "  memreel report snapshot.pickle\n"
      "  memreel tune snapshot.pickle\n"
      "  memreel check snapshot.pickle --max-reserved 9GiB\n\n"
      "Exit code: 0 done; 1 the answer is no; 2 bad usage or unreadable input.");
  Exit exit = Exit::done;
  add_commands(app, exit);
  arrange_commands(app);
  if (const auto problem = unknown_word(app, words.subspan(1))) return fail(*problem);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return printed(static_cast<Exit>(app.exit(problem)));
    return fail({.what = problem.what(), .remedy = "see memreel --help"});
  }
  return printed(exit);
}

}  // namespace memreel::cli
