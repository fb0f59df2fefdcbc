// SPDX-License-Identifier: Apache-2.0
// Labels of places in code, shortened so that they still say where: "step (train.py:41)", a layer's path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace memreel {

/// Whether a text ends with a line's number: "src/train.py:41".
bool names_line(std::string_view text);

/// At most `width` columns of a label: without its function, if that is enough; else without leading folders; then
/// without both, and at last without the middle of what is left.
std::string clipped_place(std::string_view label, std::size_t width);

/// The same of each label of a column: what tells two of them apart stays.
std::vector<std::string> clipped_places(const std::vector<std::string>& labels, std::size_t width);

/// Without compiled_label() (own_frame.h): "step (train.py:41)" of "step (train.py:41), compiled cxlfggre".
std::string_view without_compiled(std::string_view label);

}  // namespace memreel
