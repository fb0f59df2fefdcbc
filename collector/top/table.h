// Recorded processes as people read them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collector/top/watch.h"

namespace memreel::top {

/// What comes first in the table.
enum class Order : std::uint8_t { live, reserved, growth, process };

/// "live", "reserved", "growth", "pid".
std::optional<Order> order_named(std::string_view name);
/// The key that asks for it: the first letter.
std::optional<Order> order_of_key(char key);

/// A line for each device, then one for each heap of each process, and what the analyzer says of a process below it.
/// Lines have at most `columns` characters.
std::string table(std::span<const WatchedProcess> processes, Order order, std::size_t columns);

}  // namespace memreel::top
