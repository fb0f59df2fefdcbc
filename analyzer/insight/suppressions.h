// What a person has judged already: call sites that are not to be accused, in the syntax of LeakSanitizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/tables.h"

namespace memreel {

struct Suppression {
  std::string pattern;
  bool built_in = false;
};

/// A list of `leak:PATTERN`. A pattern is looked for in the function, the file and the module of every frame; `*`
/// stands for anything, `^` and `$` for the beginning and the end of the name.
class Suppressions {
 public:
  /// Those of known frameworks: memory that a library takes once per handle, stream or shape and keeps by design.
  static Suppressions built_in();

  /// One line each, blank lines and those that begin with `#` aside. `where`: the name for errors.
  Result<void> add_lines(std::string_view text, const std::string& where);

  const std::vector<Suppression>& all() const { return all_; }

  /// The first that matches a frame of `stack`; null when none does.
  const Suppression* match(const Tables& tables, StackId stack) const;

 private:
  std::vector<Suppression> all_;
};

/// Whether a name matches a pattern as above.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace memreel
