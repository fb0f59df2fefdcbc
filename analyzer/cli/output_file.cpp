#include "analyzer/cli/output_file.h"

#include <fstream>
#include <iostream>

namespace memreel::cli {

namespace fs = std::filesystem;

Result<void> write_output(const fs::path& file, const std::function<Result<void>(std::ostream&)>& write) {
  if (file.empty()) return write(std::cout);
  const fs::path partial = file.string() + ".partial";
  Result<void> written = [&]() -> Result<void> {
    std::ofstream out(partial, std::ios::binary);
    if (!out) return Error{.what = "can't be written", .where = file.string(), .remedy = "check the directory"};
    Result<void> done = write(out);
    out.flush();
    if (done && !out) return Error{.what = "can't be written", .where = file.string(), .remedy = "is the disk full?"};
    return done;
  }();
  std::error_code problem;
  if (written) fs::rename(partial, file, problem);
  if (written && !problem) return {};
  std::error_code ignored;
  fs::remove(partial, ignored);
  if (!written) return written;
  return Error{.what = problem.message(), .where = file.string()};
}

}  // namespace memreel::cli
