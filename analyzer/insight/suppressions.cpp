// SPDX-License-Identifier: Apache-2.0
#include "analyzer/insight/suppressions.h"

#include <array>

#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::array<std::string_view, 10> frameworks{
    "cublasCreate",           "cublasLtCreate",           "cudnnCreate",
    "cusolverDnCreate",       "cusparseCreate",           "ncclCommInit",
    "getCUDABlasLtWorkspace", "getCurrentCUDABlasHandle", "getCUDABlasWorkspace",
    "benchmark_cache",  // cuDNN's choice of algorithm per shape
};

/// Whether `text` contains `piece` at `at`.
bool has_at(std::string_view text, std::size_t at, std::string_view piece) {
  return text.substr(at).starts_with(piece);
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t begin = line.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(blank) - begin + 1);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  bool floating = !pattern.starts_with('^');  // the next piece may be anywhere further on
  if (!floating) pattern.remove_prefix(1);
  const bool to_end = pattern.ends_with('$');
  if (to_end) pattern.remove_suffix(1);
  std::size_t at = 0;
  while (!pattern.empty()) {
    const std::size_t star = pattern.find('*');
    const std::string_view piece = pattern.substr(0, star);
    const bool is_last = star == std::string_view::npos;
    pattern.remove_prefix(is_last ? pattern.size() : star + 1);
    if (is_last && to_end) {
      if (name.size() < at + piece.size()) return false;
      return floating ? name.ends_with(piece) : name.substr(at) == piece;
    }
    if (floating)
      at = name.find(piece, at);
    else if (!has_at(name, at, piece))
      at = std::string_view::npos;
    if (at == std::string_view::npos) return false;
    at += piece.size();
    floating = true;
  }
  return !to_end || floating || at == name.size();
}

Suppressions Suppressions::built_in() {
  Suppressions list;
  for (const std::string_view pattern : frameworks) list.all_.push_back({std::string(pattern), true});
  return list;
}

Result<void> Suppressions::add_lines(std::string_view text, const std::string& where) {
  constexpr std::string_view kind = "leak:";
  std::uint64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with(kind) || trimmed(line.substr(kind.size())).empty()) {
      return Error{
          .what = "line " + std::to_string(number) + ": '" + std::string(line) + "' is not a valid suppression",
          .where = where,
          .remedy = "write leak:PATTERN"};
    }
    all_.push_back({std::string(trimmed(line.substr(kind.size()))), false});
  }
  return {};
}

const Suppression* Suppressions::match(const Tables& tables, StackId stack) const {
  for (const FrameText& frame : frames_of(tables, stack)) {
    const std::string_view module = tables[tables[frame.module].path];
    for (const Suppression& suppression : all_) {
      if (matches(suppression.pattern, frame.function) || matches(suppression.pattern, frame.file) ||
          (!module.empty() && matches(suppression.pattern, module)))
        return &suppression;
    }
  }
  return nullptr;
}

}  // namespace memreel
