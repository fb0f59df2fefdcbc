// SPDX-License-Identifier: Apache-2.0
#include "formats/command_line/help.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "formats/model/wrapping.h"

namespace memreel {
namespace {

class Formatter final : public CLI::Formatter {
 public:
  Formatter() { column_width(column); }

  std::string make_option_desc(const CLI::Option* option) const override {
    return fitted(CLI::Formatter::make_option_desc(option));
  }
  std::string make_description(const CLI::App* app) const override {
    return prose(CLI::Formatter::make_description(app));
  }
  std::string make_footer(const CLI::App* app) const override { return prose(CLI::Formatter::make_footer(app)); }
  std::string make_subcommand(const CLI::App* command) const override {
    std::string name = "  " + command->get_name();
    name.resize(std::max(command_column, name.size() + 2), ' ');
    std::string text = fitted(command->get_description(), command_column);
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
      text.insert(at + 1, command_column, ' ');
    return name + text + "\n";
  }

 private:
  static constexpr std::size_t column = 28;
  static constexpr std::size_t command_column = 12;

  /// Continues long lines below the start of their text. Examples, which are copied, stay on one line.
  static std::string prose(const std::string& text) {
    std::string result;
    bool in_examples = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      in_examples = line == "Examples:" || (in_examples && !line.empty());
      const std::size_t blanks = line.rfind("  ");
      const std::size_t hanging = blanks == std::string::npos || blanks > terminal_width() / 2 ? 0 : blanks + 2;
      if (in_examples || display_width(line) <= terminal_width()) {
        result += line + '\n';
        continue;
      }
      const std::string rest = wrapped(line.substr(hanging), hanging);
      result += line.substr(0, hanging) + rest.substr(hanging);
    }
    if (!text.ends_with('\n') && result.ends_with('\n')) result.pop_back();
    return result;
  }

  static std::string fitted(const std::string& text, std::size_t indent = column) {
    std::string lines;
    for (const std::string& line : wrapped_lines(text, terminal_width() - indent))
      lines += (lines.empty() ? "" : "\n") + line;
    return lines;
  }
};

}  // namespace

void fit_help(CLI::App& app) { app.formatter(std::make_shared<Formatter>()); }

}  // namespace memreel
