// A page opens files with the browser's own dialog.
#include "viewer/app/open_dialog.h"
#include "viewer/page/page.h"

namespace memreel::viewer {

void OpenDialog::open(const std::filesystem::path& /*folder*/) { page_choose_file(); }

/// The chosen file arrives through memreel_open().
std::optional<std::filesystem::path> OpenDialog::draw(Scene& /*scene*/, const Window& /*window*/) {
  return std::nullopt;
}

}  // namespace memreel::viewer
