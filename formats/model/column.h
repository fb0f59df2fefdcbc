// Storage for columns that are filled right after they are made longer.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace memreel {

/// Leaves elements that are not given a value as the memory comes. Writing zeros first, which the reader of a trace
/// then overwrites, took a tenth of its time.
template <class T>
class UnsetAllocator : public std::allocator<T> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  template <class Other>
  struct rebind {                         // NOLINT(readability-identifier-naming): as std::allocator_traits has it
    using other = UnsetAllocator<Other>;  // NOLINT(readability-identifier-naming)
  };

  UnsetAllocator() = default;
  template <class Other>
  explicit UnsetAllocator(const UnsetAllocator<Other>&) noexcept {}

  void construct(T* /*element*/) noexcept {}
  template <class... Arguments>
  void construct(T* element, Arguments&&... arguments) {
    std::construct_at(element, std::forward<Arguments>(arguments)...);
  }
};

/// A std::vector, but for resize(count): new elements have no value until they are given one.
template <class T>
using Column = std::vector<T, UnsetAllocator<T>>;

}  // namespace memreel
