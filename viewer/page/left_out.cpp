// SPDX-License-Identifier: Apache-2.0
// A page shows one file, which is a trace: stubs for the viewer's functions on several files and other formats.

#include "formats/import/import.h"
#include "formats/reader/trace_reader.h"
#include "viewer/app/open_dialog.h"
#include "viewer/model/prediction.h"
#include "viewer/model/ranks.h"
#include "viewer/page/page_window.h"

namespace memreel {

Result<std::shared_ptr<ByteFile>> open_if_trace(const std::filesystem::path& path, const ImportOptions&) {
  return open_file(path);
}
Result<Trace> open_any(const std::filesystem::path&, const ImportOptions&) {
  return Error{.what = "a page shows traces only"};
}

}  // namespace memreel

namespace memreel::viewer {

Result<std::vector<std::filesystem::path>> recordings_in(std::span<const std::filesystem::path> /*named*/) {
  return Error{.what = "a page shows single files"};
}
Ranks::Ranks(std::vector<std::filesystem::path> files, std::function<void()>, Bytes) : files_(std::move(files)) {}
std::shared_ptr<const RankSeries> Ranks::series(std::size_t) const { return nullptr; }
std::string Ranks::name(std::size_t file) const { return files_[file].filename().string(); }
Bytes Ranks::highest() const { return {}; }
std::shared_ptr<const FolderOverview> Ranks::overview() const { return nullptr; }
std::shared_ptr<const PredictionView> PredictionJob::result() const { return nullptr; }

// A page opens files with the browser's own dialog.

void OpenDialog::open(const std::filesystem::path& /*folder*/) { page_choose_file(); }

/// The chosen file arrives through memreel_open().
std::optional<std::filesystem::path> OpenDialog::draw(Scene& /*scene*/, const Window& /*window*/) {
  return std::nullopt;
}

}  // namespace memreel::viewer
