// SPDX-License-Identifier: Apache-2.0
// memreel for an instrumented run (test_cost.py): many commands in one process. What valgrind translated of the program
// for one of them, which is most of its time, it need not translate again.
//
// Each line of standard input is "here" or "fork" and a command, separated by tabs: it runs in this process, or in a
// fork of it, of which nothing remains. The answer, a line to the descriptor that the argument names, is the process
// that ran it, and how a fork ended, as waitpid(2) says it.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/cli/program.h"

namespace {

int run(const std::string& line) {
  std::vector<std::string> words{"memreel"};
  std::istringstream rest(line);
  for (std::string word; std::getline(rest, word, '\t');) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const auto count = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  return static_cast<int>(memreel::cli::run(count, argv.data()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  const int answers = std::atoi(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const bool forks = line.starts_with("fork\t");
    const std::string command = line.substr(line.find('\t') + 1);
    rlimit memory{};  // a command lowers it for the rest of its process
    ::getrlimit(RLIMIT_DATA, &memory);
    const pid_t child = forks ? ::fork() : 0;
    if (child < 0) return EXIT_FAILURE;
    if (child == 0) {
      const int code = run(command);
      std::cout.flush();
      if (forks) std::_Exit(code);
    }
    ::setrlimit(RLIMIT_DATA, &memory);
    int status = 0;
    if (forks && ::waitpid(child, &status, 0) != child) return EXIT_FAILURE;
    ::dprintf(answers, "%d %d\n", static_cast<int>(forks ? child : ::getpid()), status);
  }
}
