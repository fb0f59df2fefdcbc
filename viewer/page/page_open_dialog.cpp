// A page asks for a file with the browser's own dialog.
#include "viewer/app/open_dialog.h"
#include "viewer/page/page.h"

namespace memreel::viewer {

void OpenDialog::open(const std::filesystem::path& /*folder*/) { page_choose_file(); }

/// What is chosen there comes by memreel_open().
std::optional<std::filesystem::path> OpenDialog::draw(Scene& /*scene*/, const Window& /*window*/) {
  return std::nullopt;
}

}  // namespace memreel::viewer
