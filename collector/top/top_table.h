// SPDX-License-Identifier: Apache-2.0
// Recorded processes as a table for people.
#pragma once

#include <span>

#include "collector/record/collector_command.h"
#include "collector/top/sampled_processes.h"

namespace memreel::top {

/// The sort order of the table.
enum class Order : std::uint8_t { live, reserved, growth, process };

/// "live", "reserved", "growth", "pid".
std::optional<Order> order_named(std::string_view name);
/// The key that selects it: the first letter.
std::optional<Order> order_of_key(char key);

/// A line for each device, then one for each heap of each process, with the analyzer's findings on a process below it.
/// Lines have at most `columns` characters.
std::string table(std::span<const WatchedProcess> processes, Order order, std::size_t columns);

// The JSON document of `memreel top` (docs/schema/top.json).

/// memreel.top/1.
record::Json top_document(std::span<const WatchedProcess> processes);

}  // namespace memreel::top
