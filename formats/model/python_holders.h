// SPDX-License-Identifier: Apache-2.0
// What kept memory allocated in a Python program: variables, containers, autograd graphs, as a walk over its objects
// found them (memreel.holders()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

struct PythonHolder {
  std::string text;                 // "`history` in `train` (train.py:12), list of 4,912"
  std::string kind;                 // of the container; "autograd graph", "reference cycle"; empty: anything else
  std::uint64_t length = 0;         // its elements, or nodes; the number of blocks if it is no container
  std::uint64_t length_before = 0;  // in the walk before; 0: there was none, or it was not there
  std::uint64_t blocks = 0;         // that it keeps
  Bytes bytes;                      // of these

  friend bool operator==(const PythonHolder&, const PythonHolder&) = default;
};

/// A block of memory that a holder keeps. The walk's end, not the trace, says its size.
struct PythonBlock {
  Address address;
  std::uint32_t holder = 0;  // of the rows

  friend bool operator==(const PythonBlock&, const PythonBlock&) = default;
};

struct PythonHolders {
  static constexpr std::size_t most_rows = 64, most_blocks = std::size_t{1} << 14U, longest_text = 300;

  Nanoseconds time{};               // of the walk, since the Unix epoch
  Nanoseconds took{};               // how long the program stood still for it
  std::uint64_t objects = 0;        // that it saw
  std::string note;                 // what is missing, and why
  std::vector<PythonHolder> rows;   // the most bytes first; a block that several keep counts in each
  std::vector<PythonBlock> blocks;  // by address; of many, some; each with the holder that says most

  bool empty() const { return rows.empty() && note.empty(); }
  friend bool operator==(const PythonHolders&, const PythonHolders&) = default;
};

/// Reads what the Python package writes (memreel/holding.py, table()): a line "walk TIME TOOK OBJECTS", then "note
/// TEXT", "holder BYTES BLOCKS LENGTH LENGTH_BEFORE KIND<tab>TEXT" and "block ADDRESS ROW" lines, with decimal numbers.
/// The text comes from a program: lines that are none of these are skipped, as is what exceeds the limits.
PythonHolders parse_python_holders(std::string_view text);

/// Restores the order and the limits that PythonHolders promises.
void tidy(PythonHolders& holders);

}  // namespace memreel
