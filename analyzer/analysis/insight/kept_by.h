// SPDX-License-Identifier: Apache-2.0
// Which Python variable keeps an allocation: joins the allocator's view with a walk over the program's objects.
#pragma once

#include <array>
#include <span>

#include "analyzer/describe/fields.h"
#include "formats/model/python_holders.h"
#include "formats/model/trace.h"

namespace memreel {

/// The kind of a holder that waits for gc.collect().
inline constexpr std::string_view reference_cycle = "reference cycle";

template <>
struct FieldsOf<PythonHolder> {
  static const std::array<ResultField<PythonHolder>, 6> all;
};

/// The holder of most of these allocations' bytes, as far as the trace's walk says who holds them; null if it says that
/// of less than a tenth. They are live at the time of the walk, in device or pinned host memory.
const PythonHolder* holder_of(const Trace& trace, std::span<const AllocationId> allocations);

/// " (+1,204)": by how much it grew since the walk before; empty if it did not, or there was none.
std::string growth_words(const PythonHolder& holder);

/// "1,234,567 objects in 0.9 s", with what is missing; empty if there was no walk.
std::string walk_words(const PythonHolders& holders);

}  // namespace memreel
