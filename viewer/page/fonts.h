// The fonts embedded in a page, as TrueType: made by cmake/web/fonts.py.
#pragma once

#include <span>

namespace memreel::viewer {

/// Roboto: Latin, Greek, Cyrillic, punctuation, currencies.
std::span<const unsigned char> letters_font();
/// DejaVu Sans: arrows and geometric shapes.
std::span<const unsigned char> symbols_font();

}  // namespace memreel::viewer
