// SPDX-License-Identifier: Apache-2.0
// What an error text says of one failed request, and what its figures decide.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::explain {

/// What kind of failure it was, by the figures of the text alone.
enum class Kind {
  lack,                 // short even if everything that is only cached came back
  fragmentation,        // the cached memory would do, but it is in pieces
  larger_than_device,   // one request is larger than the device, or than the arena
  other_process,        // what others hold would do
  own_limit,            // a limit that the program set itself
  private_pool,         // what a private pool caches would do
  refused_though_free,  // the device had enough
  engine_budget,        // the sum of an engine's own plan does not fit
  host_memory,          // not the device's memory at all
  not_device_memory,    // on-chip memory of a multiprocessor
  nonsense_size,        // no machine has that much
  warning,              // the program went on
  contradictory,        // the figures can't all be true
  figures_missing,      // a request, perhaps what is held, but not what there was
  no_figures,           // "out of memory" and nothing else
};

struct KindText {
  Kind kind;
  std::string_view name;   // in JSON: "own_limit"
  std::string_view title;  // in text: "the program's own limit"
};

const KindText& text_of(Kind kind);
std::vector<KindText> all_kinds();

/// The figures that texts give: bytes, unless said otherwise.
enum class Field {
  requested,    // what was asked for
  needed,       // what the allocator asks the device for to serve it
  capacity,     // of the device or arena
  free,         // of the device
  live,         // in use by the program's objects
  cached,       // kept by the allocator, not in use
  pools,        // cached by private pools
  reserved,     // live and cached
  in_use,       // by this process, with its context and libraries
  others,       // by everybody else
  limit,        // the program's own
  used,         // of the device, by everybody
  budget,       // what an engine may take
  weights,      // of the budget
  activations,  // of the budget
  non_torch,    // of the budget
  kv_cache,     // of the budget
  kv_needed,    // for the length that was asked for
  device,       // ordinal
  length,       // tokens that were asked for
  fitting,      // tokens that would fit
};
inline constexpr std::size_t field_count = static_cast<std::size_t>(Field::fitting) + 1;
std::string_view name_of(Field field);
std::optional<Field> field_named(std::string_view name);

class Figures {
 public:
  std::optional<std::uint64_t>& operator[](Field field) { return values_[static_cast<std::size_t>(field)]; }
  const std::optional<std::uint64_t>& operator[](Field field) const { return values_[static_cast<std::size_t>(field)]; }
  bool empty() const;
  friend auto operator<=>(const Figures&, const Figures&) = default;

 private:
  std::array<std::optional<std::uint64_t>, field_count> values_;
};

struct Grammar;

/// One failure in a log.
struct Failure {
  const Grammar* grammar = nullptr;  // that recognised it first
  std::string source;                // "rank 3", "EngineCore_DP0 pid=17"; empty: the log does not say
  std::uint64_t line = 0;            // from 1
  std::uint64_t offset = 0;          // of the text in the log [bytes]
  std::uint64_t count = 1;           // how often it was printed
  Figures figures;
  std::vector<std::uint64_t> processes;      // what each process held that the text lists [bytes]
  std::map<std::string, std::string> words;  // other things that the text names: "accelerator": "HIP"
  // From here on: what the rules conclude.
  Kind kind = Kind::no_figures;
  std::string because;                     // the arithmetic, in words
  std::optional<std::uint64_t> shortfall;  // what was missing [bytes]
};

}  // namespace memreel::explain

// The table of error texts: how each is recognised, and which figures it has.

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
  int part = 1;        // texts of a family that follow each other with ascending parts are one failure
  bool fact = false;   // no failure: figures for the next failure of the framework
  bool vague = false;  // counts only where nothing else says more
  bool aside = false;  // a warning, or of the host's memory: a vague text on another line is a failure of its own
  std::size_t extent = 2000;  // bytes of text behind the head that may belong to it
};

std::span<const Grammar> torch_texts();
std::span<const Grammar> engine_texts();
std::span<const Grammar> xla_texts();
std::span<const Grammar> rapids_texts();
std::span<const Grammar> library_texts();
std::span<const Grammar> runtime_texts();
std::span<const Grammar> host_texts();
std::span<const Grammar> graphics_texts();
std::span<const Grammar> driver_texts();

/// What some libraries print below a vague text; a terminal may have joined the lines.
constexpr std::string_view free_and_requested =
    R"(^[^\n]{0,80}\W{0,8}Free memory: {free}\W{0,8}Requested memory: {requested})";

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

/// The memory is the host's, not the device's.
void judge_as_the_hosts(Failure& failure);

/// "1.93 GiB".
std::string in_words(std::uint64_t bytes);

}  // namespace memreel::explain
