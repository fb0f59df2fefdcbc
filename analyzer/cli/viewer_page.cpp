#include "analyzer/cli/viewer_page.h"

#include <filesystem>
#include <ostream>
#include <span>
#include <system_error>
#include <vector>

#include "analyzer/report/html_text.h"
#include "formats/model/whole_file.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_name = "memreel-view.html", place = "<!--trace-->";

/// For an installed program: ../share/memreel; for one in build/PRESET/bin: build/web. Empty if found in neither.
fs::path find_file() {
  std::error_code problem;
  const fs::path home = fs::read_symlink("/proc/self/exe", problem).parent_path().parent_path();
  if (fs::path file = home / "share/memreel" / file_name; fs::is_regular_file(file, problem)) return file;
  const fs::path build = home.parent_path();
  if (fs::path file = build / "web" / file_name; build.filename() == "build" && fs::is_regular_file(file, problem))
    return file;
  return {};
}

std::string element(std::string_view name, std::string_view address) {
  std::string text = R"(<script type="application/octet-stream" id="trace" data-name=")" + html_escaped(name) + "\"";
  if (!address.empty()) text += " data-address=\"" + html_escaped(address) + "\"";
  return text + ">";
}

constexpr std::string_view end_of_element = "</script>";

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) { return j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U; };
    const unsigned group = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
    for (std::size_t digit = 0; digit < 4; ++digit)
      text += i + digit <= bytes.size() ? digits[(group >> (18 - 6 * digit)) & 63U] : '=';
  }
  return text;
}

Result<ViewerPage> ViewerPage::find() {
  const fs::path file = find_file();
  if (file.empty())
    return Error{.what = "the viewer's browser page is not installed",
                 .where = std::string(file_name),
                 .remedy = "build it with ./dev web in memreel's source; memreel report -o FILE.html works without it"};
  const Result<std::string> read = read_whole_file(file);
  if (!read) return read.error();
  const std::string& text = *read;
  const std::size_t at = text.find(place);
  if (at == std::string::npos)
    return Error{.what = "is not the viewer's page", .where = file.string(), .remedy = "reinstall memreel"};
  ViewerPage page;
  page.before_ = text.substr(0, at);
  page.after_ = text.substr(at + place.size());
  return page;
}

Result<void> ViewerPage::write(std::ostream& out, std::string_view name, ByteFile& trace) const {
  out << before_ << element(name, {});
  std::vector<char> bytes(std::size_t{3} << 16U);  // a multiple of a base64 group
  for (std::uint64_t done = 0, size = trace.size(); done < size;) {
    const Result<std::size_t> count = trace.read(done, std::as_writable_bytes(std::span(bytes)));
    if (!count) return count.error();
    if (*count == 0) break;
    out << base64({bytes.data(), *count});
    done += *count;
  }
  out << end_of_element << after_;
  return {};
}

std::string ViewerPage::that_fetches(std::string_view name, std::string_view address) const {
  return before_ + element(name, address) + std::string(end_of_element) + after_;
}

}  // namespace memreel::cli
