// SPDX-License-Identifier: Apache-2.0
// The table of error texts: how each is recognised, and which figures it has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/explain/failure.h"

namespace re2 {
class RE2;
}

namespace memreel::explain {

/// Decides what the figures of a family's texts mean where that is not the same for all.
using Rule = void (*)(Failure&);

/// One text of one framework.
///
/// Expressions are RE2's, with three additions: a space stands for any white space or none, as terminals break lines
/// anywhere; `{live}` stands for a size with its unit, `{live#}` for a number and `{live~GiB}` for a number of GiB,
/// each stored as that field; `{shape:REGEX}` stores text.
struct Grammar {
  std::string_view name;                       // "torch.of_which"
  std::string_view framework;                  // "PyTorch"
  std::string_view releases;                   // that print it; empty: all that are known
  std::string_view key;                        // in each such text, lower case and without spaces
  std::string_view head;                       // where the text begins
  std::string_view example;                    // as people search for it
  std::string_view meaning;                    // one sentence for docs/errors.md
  std::string_view printed_by;                 // the source file that prints it, or its documentation
  std::vector<std::string_view> clauses = {};  // looked for behind the head, in any order
  Rule rule = nullptr;                         // instead of the arithmetic that most texts share
  int part = 1;               // texts of a family that follow each other with ascending parts are one failure
  bool fact = false;          // no failure: figures for the next failure of the framework
  bool vague = false;         // counts only where nothing else says more
  std::size_t extent = 2000;  // bytes of text behind the head that may belong to it
};

std::span<const Grammar> torch_texts();
std::span<const Grammar> engine_texts();
std::span<const Grammar> xla_texts();
std::span<const Grammar> rapids_texts();
std::span<const Grammar> runtime_texts();
std::span<const Grammar> driver_texts();

/// Every text, more specific ones first.
std::vector<const Grammar*> all_texts();

/// A grammar's expressions, compiled.
class Matcher {
 public:
  explicit Matcher(const Grammar& grammar);
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  const Grammar& grammar() const { return *grammar_; }
  /// The first text in `text` from `from` on: its beginning and end; false if there is none.
  bool find(std::string_view text, std::size_t from, std::size_t& begin, std::size_t& end) const;
  /// Reads the figures of the text between `begin` and `limit` into `failure`. Returns where the last of them ends.
  std::size_t read(std::string_view text, std::size_t begin, std::size_t limit, Failure& failure) const;

 private:
  const Grammar* grammar_;
  std::unique_ptr<re2::RE2> head_;
  std::vector<std::unique_ptr<re2::RE2>> clauses_;
};

/// An expression of RE2 that finds any of the keys in raw text, also across line breaks.
std::string expression_for_keys();

// What the figures of a text decide, whichever framework printed it.

/// Fills in the kind, the reason and the shortfall from the figures, and figures that follow from others (needed,
/// reserved, others). A family's own rule calls it once its figures mean what Field says.
void judge_by_figures(Failure& failure);

/// "1.93 GiB".
std::string in_words(std::uint64_t bytes);

}  // namespace memreel::explain
