// SPDX-License-Identifier: Apache-2.0
#include "formats/model/result.h"

#include "formats/model/printable.h"

namespace memreel {

std::string Error::message() const {
  std::string line;
  if (!where.empty()) line += where + ": ";
  if (offset) line += "byte " + std::to_string(*offset) + ": ";
  line += what;
  if (!remedy.empty()) line += " (" + remedy + ")";
  return line;
}

std::string error_line(const Error& error, std::string_view program, std::string_view word) {
  return std::string(program) + ": " + std::string(word) + ' ' + printable(error.message()) + '\n';
}

}  // namespace memreel
