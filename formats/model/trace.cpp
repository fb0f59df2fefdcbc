// SPDX-License-Identifier: Apache-2.0
#include "formats/model/trace.h"

namespace memreel {

void EventColumns::reserve(std::size_t events) {
  kind.reserve(events);
  origin.reserve(events);
  stack.reserve(events);
  allocation.reserve(events);
  time.reserve(events);
  address_or_value.reserve(events);
  size.reserve(events);
}

void EventColumns::clear() {
  kind.clear();
  origin.clear();
  stack.clear();
  allocation.clear();
  time.clear();
  address_or_value.clear();
  size.clear();
}

void EventColumns::push_back(const Event& event) {
  kind.push_back(event.kind);
  origin.push_back(event.origin);
  stack.push_back(event.stack);
  allocation.push_back(event.allocation);
  time.push_back(event.time);
  address_or_value.push_back(has_value(event.kind) ? event.value : event.address.value);
  size.push_back(event.size);
}

}  // namespace memreel
