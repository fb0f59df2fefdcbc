// SPDX-License-Identifier: Apache-2.0
// A range of values that an object computes by index.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>

namespace memreel {

/// `Get`: a member function that gives the value at an index, &Events::time. Valid as long as the object does not
/// change. Standard algorithms take its iterators; std::views would do, but Clang 14 can't compile those of GCC 12.
template <auto Get>
class ValuesOf;

template <class Of, class Value, Value (Of::*Get)(std::size_t) const>
class ValuesOf<Get> {
 public:
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;  // NOLINT(readability-identifier-naming): std's names
    using value_type = Value;                                   // NOLINT(readability-identifier-naming)
    using difference_type = std::ptrdiff_t;                     // NOLINT(readability-identifier-naming)
    using pointer = void;                                       // NOLINT(readability-identifier-naming)
    using reference = Value;                                    // NOLINT(readability-identifier-naming)

    Iterator() = default;
    Iterator(const Of& of, std::size_t i) : of_(&of), i_(static_cast<std::ptrdiff_t>(i)) {}

    Value operator*() const { return (*this)[0]; }
    Value operator[](std::ptrdiff_t n) const { return (of_->*Get)(static_cast<std::size_t>(i_ + n)); }
    Iterator& operator+=(std::ptrdiff_t n) {
      i_ += n;
      return *this;
    }
    Iterator& operator-=(std::ptrdiff_t n) { return *this += -n; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator operator--(int) {
      const Iterator before = *this;
      --*this;
      return before;
    }
    friend Iterator operator+(Iterator at, std::ptrdiff_t n) { return at += n; }
    friend Iterator operator+(std::ptrdiff_t n, Iterator at) { return at += n; }
    friend Iterator operator-(Iterator at, std::ptrdiff_t n) { return at -= n; }
    friend std::ptrdiff_t operator-(Iterator a, Iterator b) { return a.i_ - b.i_; }
    friend bool operator==(Iterator a, Iterator b) { return a.i_ == b.i_; }
    friend auto operator<=>(Iterator a, Iterator b) { return a.i_ <=> b.i_; }

   private:
    const Of* of_ = nullptr;
    std::ptrdiff_t i_ = 0;
  };

  ValuesOf(const Of& of, std::size_t count) : of_(&of), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Value operator[](std::size_t i) const { return (of_->*Get)(i); }
  Value front() const { return (*this)[0]; }
  Value back() const { return (*this)[count_ - 1]; }
  Iterator begin() const { return {*of_, 0}; }
  Iterator end() const { return {*of_, count_}; }

 private:
  const Of* of_;
  std::size_t count_;
};

}  // namespace memreel
