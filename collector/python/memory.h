// Reading the interpreter's structures: directly, or with care while it is not yet known that they are what they should
// be.
#pragma once

#include <cstddef>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

namespace memreel::python {

/// Reads memory that is known to be there.
class Direct {
 public:
  template <class T>
  T read(const void* base, std::size_t offset) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(base) + offset, sizeof value);
    return value;
  }
  bool readable(const void* /*begin*/, std::size_t /*size*/) { return true; }
  static constexpr bool failed() { return false; }
};

/// Reads memory that may not be there: through the kernel, which refuses where a load would end the program. Once a
/// read has failed, it and all later ones give zeros.
class Careful {
 public:
  template <class T>
  T read(const void* base, std::size_t offset) {
    T value{};
    copy(&value, static_cast<const std::byte*>(base) + offset, sizeof value);
    return value;
  }
  /// Whether all of it is there.
  bool readable(const void* begin, std::size_t size) {
    constexpr std::size_t page = 4096;
    const auto* const bytes = static_cast<const std::byte*>(begin);
    std::byte byte{};
    for (std::size_t i = 0; i < size && !failed_; i += page) copy(&byte, bytes + i, 1);
    if (size > 0) copy(&byte, bytes + size - 1, 1);
    return !failed_;
  }
  bool failed() const { return failed_; }

 private:
  void copy(void* to, const void* from, std::size_t size) {
    if (failed_) return;
    const iovec target{to, size};
    const iovec source{const_cast<void*>(from), size};  // NOLINT(cppcoreguidelines-pro-type-const-cast): read only
    failed_ = process_vm_readv(getpid(), &target, 1, &source, 1, 0) != static_cast<ssize_t>(size);
  }

  bool failed_ = false;
};

}  // namespace memreel::python
