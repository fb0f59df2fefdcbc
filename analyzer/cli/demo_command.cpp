// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "analyzer/cli/program.h"
#include "formats/model/files.h"

namespace memreel::cli {
namespace {

struct Scene {
  const char* sentence;
  std::vector<std::string> words;  // of the command, without the trace
};

const std::array<Scene, 4>& scenes() {
  static const std::array<Scene, 4> all{{
      {"A GPT was trained on an H200 while PyTorch recorded its allocator. This is what the recording holds.",
       {"info"}},
      {"What did it need the memory for, and who held it?", {"report", "--summary"}},
      {"Can it be trusted? PyTorch's allocator is replayed and every address compared with the recorded one.",
       {"verify"}},
      {"The same requests, other allocators: how much memory would each have taken from the GPU?",
       {"replay", "--policy", "bound.live,cuda.malloc,torch.native,fit.best"}},
  }};
  return all;
}

Exit run(std::vector<std::string> words) {
  CLI::App app;
  Exit exit = Exit::done;
  add_commands(app, exit);
  std::ranges::reverse(words);  // the order CLI11 expects
  app.parse(words);
  return exit;
}

Exit run_demo() {
  const std::filesystem::path trace = sample_trace();
  if (trace.empty())
    return fail({.what = "the sample recording is not installed",
                 .where = "share/memreel/samples",
                 .remedy = "reinstall memreel, or run memreel report TRACE on a recording of your own"});
  for (const Scene& scene : scenes()) {
    std::vector<std::string> words = scene.words;
    words.insert(words.begin() + 1, trace.string());
    std::string typed = "memreel";
    for (const std::string& word : words) typed += ' ' + (word == trace.string() ? trace.filename().string() : word);
    std::cout << bold(scene.sentence) << "\n\n$ " << typed << "\n\n";
    if (const Exit exit = run(words); exit != Exit::done) return exit;
    std::cout << '\n';
  }
  std::cout << bold("Next") << "\n\n"
            << "memreel record python train.py     record your own program\n"
               "memreel report snapshot.pickle     or read a recording made by PyTorch itself\n"
               "memreel view "
            << trace.string() << "\n"
            << "memreel --help                     all commands\n";
  return Exit::done;
}

}  // namespace

void add_demo_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("demo", "Show what memreel does, on a recording that comes with it");
  command->footer(
      "Prints each command that it runs. Needs no GPU.\n\n"
      "Examples:\n"
      "  memreel demo");
  command->callback([&exit] { exit = run_demo(); });
}

}  // namespace memreel::cli
