// SPDX-License-Identifier: Apache-2.0
// Import of a PyTorch snapshot compared with Python's pickle.load of the same file, alternating, each in its own
// process.
//
//     bench_import [FILE.pickle[.xz]]      default: the history random_2m, else a generated snapshot
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "formats/import/import.h"
#include "formats/import/source/bytes.h"
#include "tests/histories.h"

namespace memreel {
namespace {

constexpr int rounds = 3;

struct Cost {
  double seconds = 0;
  double peak_bytes = 0;
};

/// Runs `work` in a child process; it prints its seconds to standard output.
template <class Work>
std::optional<Cost> measure(const Work& work) {
  std::fflush(stdout);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    work();
    std::fflush(stdout);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string output;
  std::array<char, 256> piece{};
  for (ssize_t count = 0; (count = ::read(ends[0], piece.data(), piece.size())) > 0;)
    output.append(piece.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0 || output.empty()) return std::nullopt;
  return Cost{.seconds = std::stod(output), .peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024};
}

void python(const std::vector<std::string>& arguments) {
  const std::string script = (test::source_directory() / "tests" / "bench" / "pickle_load.py").string();
  std::vector<std::string> words{"python3", script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

void import_once(const std::filesystem::path& file, const std::filesystem::path& output) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(output);
  if (!sink) ::_exit(1);
  const Result<void> imported = import_file(file, std::move(*sink));
  if (!imported) {
    std::fprintf(stderr, "%s\n", imported.error().message().c_str());
    ::_exit(1);
  }
  std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

/// Python's pickle does not read compressed files, so both get the uncompressed one.
bool decompress_to(const std::filesystem::path& file, const std::filesystem::path& plain) {
  Result<OpenedFile> opened = open_bytes(file);
  if (!opened) return false;
  std::ofstream out(plain, std::ios::binary);
  std::vector<std::byte> buffer(std::size_t{1} << 20U);
  for (;;) {
    const Result<std::size_t> count = opened->bytes->read(buffer);
    if (!count) return false;
    if (*count == 0) return out.good();
    out.write(reinterpret_cast<const char*>(buffer.data()), static_cast<std::streamsize>(*count));
  }
}

int run(const std::optional<std::filesystem::path>& named, const std::filesystem::path& directory) {
  const std::filesystem::path pickle = directory / "snapshot.pickle";
  const std::filesystem::path trace = directory / "snapshot.reel";
  const std::optional<std::filesystem::path> source = named ? named : test::history("random_2m");
  if (source && source->extension() != ".reel") {
    if (!decompress_to(*source, pickle)) {
      std::fprintf(stderr, "bench_import: %s can't be read\n", source->c_str());
      return 2;
    }
  } else {
    measure([&] { python({"--generate", pickle.string()}); });
  }
  if (!std::filesystem::exists(pickle)) {
    std::fprintf(stderr, "bench_import: no history, and python3 could not generate one\n");
    return 2;
  }

  std::vector<Cost> imports;
  std::vector<Cost> loads;
  for (int round = 0; round < rounds; ++round) {
    const std::optional<Cost> import = measure([&] { import_once(pickle, trace); });
    const std::optional<Cost> load = measure([&] { python({pickle.string()}); });
    if (!import || !load) {
      std::fprintf(stderr, "bench_import: %s failed\n", import ? "python3" : "the import");
      return 2;
    }
    imports.push_back(*import);
    loads.push_back(*load);
  }
  const auto faster = [](const Cost& a, const Cost& b) { return a.seconds < b.seconds; };
  const Cost import = *std::min_element(imports.begin(), imports.end(), faster);
  const Cost load = *std::min_element(loads.begin(), loads.end(), faster);
  const auto bytes = static_cast<double>(std::filesystem::file_size(pickle));
  const auto trace_bytes = static_cast<double>(std::filesystem::file_size(trace));
  constexpr double mb = 1e6;
  std::printf("%s, %.1f MB, best of %d\n", source ? source->filename().c_str() : "generated snapshot", bytes / mb,
              rounds);
  std::printf("%-24s %9s %14s\n", "", "seconds", "peak memory");
  std::printf("%-24s %9.3f %11.1f MB\n", "python3 pickle.load", load.seconds, load.peak_bytes / mb);
  std::printf("%-24s %9.3f %11.1f MB   -> %.1f MB trace\n", "memreel import", import.seconds, import.peak_bytes / mb,
              trace_bytes / mb);
  std::printf("%-24s %8.1fx %12.2fx the pickle (targets: >= 8x, <= 2x)\n", "ratio", load.seconds / import.seconds,
              import.peak_bytes / bytes);
  return 0;
}

}  // namespace
}  // namespace memreel

int main(int argc, char** argv) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("memreel_bench_import_" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  const int status = memreel::run(argc > 1 ? std::optional<std::filesystem::path>(argv[1]) : std::nullopt, directory);
  std::filesystem::remove_all(directory);
  return status;
}
