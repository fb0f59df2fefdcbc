#include "collector/record/output.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace memreel::record {

Result<std::string> output_pattern(const std::string& given) {
  std::error_code problem;
  const std::filesystem::path path = std::filesystem::absolute(given, problem);
  if (problem) return Error{.what = problem.message(), .where = given};
  if (std::filesystem::is_directory(path, problem))
    return Error{.what = "is a directory", .where = given, .remedy = "give -o a file name"};
  const std::filesystem::path directory = path.parent_path();
  if (directory.string().find('%') != std::string::npos) return path.string();
  std::filesystem::create_directory(directory, problem);  // for -o 'job/%r.reel'; not its parents: they may be misspelt
  if (::access(directory.c_str(), W_OK | X_OK) != 0 || !std::filesystem::is_directory(directory, problem)) {
    const int reason = std::filesystem::exists(directory, problem) && errno == 0 ? ENOTDIR : errno;
    return Error{.what = "can't write a trace here: " + std::generic_category().message(reason),
                 .where = directory.string(),
                 .remedy = "choose another file with -o"};
  }
  return path.string();
}

}  // namespace memreel::record
