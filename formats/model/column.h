// Storage for columns that are overwritten right after resizing.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace memreel {

/// Leaves new elements uninitialised. Zeroing them, only for the trace reader to overwrite them, took a tenth of its
/// time.
template <class T>
class UnsetAllocator : public std::allocator<T> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  template <class Other>
  struct rebind {                         // NOLINT(readability-identifier-naming): std::allocator_traits's name
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

/// A std::vector, except that resize(count) leaves new elements uninitialised.
template <class T>
using Column = std::vector<T, UnsetAllocator<T>>;

}  // namespace memreel
