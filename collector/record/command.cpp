#include "collector/record/command.h"

#include <cstdio>
#include <exception>
#include <new>
#include <vector>

#include "formats/model/printable.h"

namespace memreel::record {

void say(std::string_view text) { std::fprintf(stderr, "%.*s", static_cast<int>(text.size()), text.data()); }

int fail(const Error& error) {
  say("memreel: error: " + printable(error.message()) + "\n");
  return unusable;
}

std::optional<int> parse(CLI::App& app, std::string_view name, int argc, char** argv) {
  const int first = argc > 1 && name == argv[1] ? 2 : 1;
  std::vector<std::string> own;  // CLI11 takes them last first
  for (int i = argc - 1; i >= first; --i) own.emplace_back(argv[i]);
  try {
    app.parse(own);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return fail({.what = problem.what(), .remedy = "see memreel " + std::string(name) + " --help"});
  }
  return std::nullopt;
}

int guarded(std::string_view name, int (*command)(int, char**), int argc, char** argv) try {
  return command(argc, argv);
} catch (const std::bad_alloc&) {
  return fail({.what = "not enough memory for memreel " + std::string(name), .remedy = "free memory"});
} catch (const std::exception& problem) {
  return fail({.what = problem.what()});
}

}  // namespace memreel::record
