// memreel view --serve: the viewer in a browser, for computers without a screen.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/help.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/page_server.h"
#include "analyzer/cli/viewer_page.h"
#include "formats/model/printable.h"

namespace memreel::cli {
namespace {

struct ServeArguments {
  std::filesystem::path file;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  Bytes memory_limit;
};

bool is_port(std::string_view word) {
  return !word.empty() && word.size() <= 5 && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

/// Text as a file that owns it.
std::shared_ptr<ByteFile> file_of(std::string text) {
  const auto kept = std::make_shared<const std::string>(std::move(text));
  const std::shared_ptr<ByteFile> file = memory_file(std::as_bytes(std::span(*kept)));
  return {file.get(), [kept, file](ByteFile*) {}};
}

std::string this_computer() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? printable(name.data()) : "SERVER";
}

void say_where(const ServeArguments& arguments, const PageServer& server) {
  const bool is_loopback = arguments.host.starts_with("127.") || arguments.host == "::1";
  const std::string port = std::to_string(server.port());
  const std::string host = arguments.host == "0.0.0.0" || arguments.host == "::" ? this_computer()
                           : arguments.host.find(':') != std::string::npos       ? "[" + arguments.host + "]"
                                                                                 : arguments.host;
  std::cout << printable(arguments.file.filename().string()) << " is shown at\n  http://" << host << ':' << port
            << server.root() << '\n';
  if (is_loopback)
    std::cout << "From another computer, run this there first, then open the same address:\n  ssh -N -L " << port << ':'
              << host << ':' << port << ' ' << this_computer() << '\n';
  std::cout << "Press Ctrl+C to stop." << std::endl;
  if (!is_loopback)
    note("anyone who can reach this computer and knows that address can read the trace, also in transit");
}

Exit serve(const ServeArguments& arguments) {
  const Result<ViewerPage> page = ViewerPage::find();
  if (!page) return fail(page.error());
  const Result<std::shared_ptr<ByteFile>> trace = open_whole_trace(arguments.file, arguments.memory_limit);
  if (!trace) return fail(trace.error());
  Result<PageServer> server = PageServer::listen(arguments.host, arguments.port);
  if (!server) return fail(server.error());
  constexpr std::string_view name_of_trace = "trace.reel";
  std::string html = page->that_fetches(arguments.file.filename().string(), name_of_trace);
  const std::vector<Document> documents{
      {.name = "", .type = "text/html; charset=utf-8", .content = file_of(std::move(html))},
      {.name = std::string(name_of_trace), .type = "application/octet-stream", .content = *trace}};
  say_where(arguments, *server);
  if (Result<void> flushed = flush_output(); !flushed) return fail(flushed.error());
  const Result<void> ended = server->serve(documents);
  return ended ? Exit::done : fail(ended.error());
}

}  // namespace

bool asks_to_serve(std::span<char* const> words) {
  return words.size() > 1 && std::string_view(words[1]) == "view" &&
         std::ranges::any_of(words.subspan(2),
                             [](std::string_view word) { return word == "--serve" || word.starts_with("--serve="); });
}

Exit serve_view(std::span<char* const> words) {
  // --serve 8080 and --serve=8080 mean --serve --port 8080; anything else after --serve is the trace.
  std::vector<std::string> arguments_given;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("--serve=")) {
      arguments_given.insert(arguments_given.end(), {"--serve", "--port", std::string(word.substr(8))});
    } else {
      arguments_given.emplace_back(word);
      if (word == "--serve" && i + 1 < words.size() && is_port(words[i + 1])) arguments_given.emplace_back("--port");
    }
  }
  std::ranges::reverse(arguments_given);  // the order CLI11 expects

  CLI::App app("memreel view --serve shows a trace in a browser, for computers without a screen.", "memreel view");
  set_formatter(app);
  ServeArguments arguments;
  app.add_option("TRACE", arguments.file, "Trace, or any file that import reads")->required();
  bool serves = true;  // always set when this function is called
  app.add_flag("--serve", serves, "Serve the viewer as a page; a number after it is the port");
  app.add_option("--port", arguments.port, "Port [a free one]");
  app.add_option("--host", arguments.host, "Address to listen on [127.0.0.1: this computer only]");
  add_memory_option(app, arguments.memory_limit);
  app.footer(
      "Examples:\n"
      "  memreel view --serve run.reel\n"
      "  memreel view --serve 8080 snapshot.pickle\n\n"
      "Exit code: 2 bad usage or input that can't be read.");
  try {
    app.parse(arguments_given);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return static_cast<Exit>(app.exit(problem));
    return fail({.what = problem.what(), .remedy = "see memreel view --serve --help"});
  }
  return serve(arguments);
}

}  // namespace memreel::cli
