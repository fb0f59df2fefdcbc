// SPDX-License-Identifier: Apache-2.0
#include "formats/model/result.h"

namespace memreel {

std::string Error::message() const {
  std::string line;
  if (!where.empty()) line += where + ": ";
  if (offset) line += "byte " + std::to_string(*offset) + ": ";
  line += what;
  if (!remedy.empty()) line += " (" + remedy + ")";
  return line;
}

}  // namespace memreel
