// The frame of a report in HTML: one file that needs no network, light or dark as the reader's system is.
#pragma once

#include <string>

namespace memreel {

/// `title` is text; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace memreel
