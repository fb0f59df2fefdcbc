// memreel: reads, replays and judges traces. Commands implemented by other programs (recording, viewing) are found
// beside this one and executed in its place, as git does.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/flight_dump.h"
#include "analyzer/cli/help.h"
#include "analyzer/cli/helper.h"
#include "analyzer/cli/output_file.h"
#include "memreel/version.h"

namespace {

using memreel::cli::Exit;

// Returns only if the sibling could not be started.
Exit run_sibling(std::string_view command, std::string_view program, char** arguments) {
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::string path = (self.parent_path() / program).string();
  execv(path.c_str(), arguments);
  return memreel::cli::fail({.what = "memreel " + std::string(command) + " needs the program " + std::string(program) +
                                     ", which is not installed",
                             .where = path,
                             .remedy = command == "view"
                                           ? "build it with OpenGL and GLFW, or see it in a browser: "
                                             "memreel view --serve TRACE"
                                           : "PyTorch can record itself with "
                                             "torch.cuda.memory._record_memory_history(); see the README"});
}

/// Returns `exit`, unless the command's output could not be written.
Exit printed(Exit exit) {
  const memreel::Result<void> flushed = memreel::cli::flush_output();
  return flushed || exit == Exit::unusable ? exit : memreel::cli::fail(flushed.error());
}

int run(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (memreel::cli::asks_to_serve(words)) return static_cast<int>(printed(memreel::cli::serve_view(words)));
  if (argc > 1) {
    for (const memreel::cli::Sibling& sibling : memreel::cli::siblings())
      if (sibling.command == argv[1]) return static_cast<int>(run_sibling(sibling.command, sibling.program, argv));
  }

  // Commands called by programs, not by users.
  if (argc > 1 && std::string_view(argv[1]) == "flight-dump")
    return static_cast<int>(memreel::cli::flight_dump(words.subspan(2)));
  if (argc > 1 && std::string_view(argv[1]) == "failure-lines")
    return static_cast<int>(memreel::cli::say_failure_lines(words.subspan(2)));

  CLI::App app("memreel records what a program does with GPU memory and replays it against any allocator.", "memreel");
  memreel::cli::set_formatter(app);
  app.set_version_flag("--version", "memreel " + std::string(memreel::version));
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
  memreel::cli::add_commands(app, exit);
  memreel::cli::arrange_commands(app);
  if (const auto problem = memreel::cli::unknown_word(app, words.subspan(1)))
    return static_cast<int>(memreel::cli::fail(*problem));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return static_cast<int>(printed(static_cast<Exit>(app.exit(problem))));
    return static_cast<int>(memreel::cli::fail({.what = problem.what(), .remedy = "see memreel --help"}));
  }
  return static_cast<int>(printed(exit));
}

/// Handles out-of-memory during destruction, where no exception can be caught.
[[noreturn]] void end_without_memory() {
  const std::exception_ptr thrown = std::current_exception();
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view line = "memreel: error: not enough memory (free memory, or use a machine with more)\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(static_cast<int>(Exit::unusable));
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_without_memory);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::string what = "not enough memory for 'memreel";
    for (int i = 1; i < std::min(argc, 3); ++i) what += " " + std::string(argv[i]);
    return static_cast<int>(memreel::cli::fail(
        {.what = what + "'", .remedy = "free memory, or use a machine with more, or a shorter trace"}));
  } catch (const std::exception& problem) {
    // No other exception crosses a function boundary in this project.
    return static_cast<int>(memreel::cli::fail({.what = problem.what()}));
  }
}
