// The frame of an HTML report: one file that needs no network, light or dark according to the reader's system.
#pragma once

#include <string>

namespace memreel {

/// `title` is text; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace memreel
