// SPDX-License-Identifier: Apache-2.0
// Runs memreel's Python package in the program, which may not have imported it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace memreel::python {

/// A walk over the program's objects (memreel/holding.py, table()): the main thread does it at its next safe point,
/// holding the GIL. Until then it can be withdrawn, which the destructor does.
class ObjectWalk {
 public:
  /// `package`: the directory that contains holding.py. `call`: of a function there that returns text, as Python
  /// source: "table(seconds=2.0)". Null: there is no interpreter that could, or an earlier walk has not begun.
  static std::unique_ptr<ObjectWalk> ask(const std::string& package, const std::string& call);

  ObjectWalk(const ObjectWalk&) = delete;
  ObjectWalk& operator=(const ObjectWalk&) = delete;
  ~ObjectWalk();

  /// Lets a walk that a thread without a Python state asked for begin soon: takes the GIL and gives it back. Up to
  /// CPython 3.12 the main thread only sees such a request when it takes the GIL itself (Python/ceval.c,
  /// COMPUTE_EVAL_BREAKER), and it gives the GIL up only to a thread that waits for it. Blocks until then; if the
  /// interpreter ends meanwhile, so does the calling thread: it should be one of its own.
  static void hurry();
  /// Whether this interpreter needs that.
  static bool needs_hurry();

  bool has_begun() const;
  /// What the call returned, or a line "note ..." that says why there is nothing; none before it has ended.
  std::optional<std::string> answer() const;

 private:
  struct State;
  explicit ObjectWalk(std::shared_ptr<State> state);
  static int run(void* asked);

  std::shared_ptr<State> state_;
};

/// Text as a Python literal.
std::string literal(std::string_view text);

/// The directory of the package that belongs to memreel's library `library`; empty if it is not installed.
std::string package_of(const std::string& library);

}  // namespace memreel::python
