// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/job.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "formats/model/files.h"
#include "formats/model/launchers.h"
#include "formats/model/printable.h"
#include "formats/model/stack_text.h"

namespace memreel::agent {
namespace {

constexpr std::string_view mask = "***";
constexpr std::string_view spaces = " \t\r\n";

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// {"hf", "token"} of "HF_TOKEN", "--hf-token" and "hfToken".
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool hump = i > 0 && std::isupper(c) != 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if (!is_alphanumeric(name[i]) || hump) words.emplace_back();
    if (is_alphanumeric(name[i])) words.back() += static_cast<char>(std::tolower(c));
  }
  std::erase(words, "");
  return words;
}

template <std::size_t Size>
bool is_one_of(const std::array<std::string_view, Size>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// "max-tokens" and "tokenizer" are not secrets; "hf_token" and "api-key" are.
bool names_a_secret(std::string_view name) {
  constexpr std::array<std::string_view, 8> anywhere{"password", "passwd",  "passphrase", "pwd",
                                                     "secret",   "secrets", "apikey",     "credentials"};
  constexpr std::array<std::string_view, 6> last{"token", "auth", "credential", "bearer", "pass", "jwt"};
  constexpr std::array<std::string_view, 9> before_key{"api",  "access",  "secret",  "private",   "auth",
                                                       "hmac", "account", "signing", "encryption"};
  const std::vector<std::string> words = words_of(name);
  if (words.empty()) return false;
  if (std::ranges::any_of(words, [&](const std::string& word) { return is_one_of(anywhere, word); })) return true;
  if (is_one_of(last, words.back())) return true;
  return words.back() == "key" && words.size() > 1 && is_one_of(before_key, words[words.size() - 2]);
}

bool begins_like_a_token(std::string_view word) {
  constexpr std::array<std::string_view, 12> prefixes{"hf_",    "sk-",   "ghp_",  "gho_", "ghs_", "github_pat_",
                                                      "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ",  "nvapi-"};
  constexpr std::size_t shortest = 16;
  return word.size() >= shortest &&
         std::ranges::any_of(prefixes, [&](std::string_view prefix) { return word.starts_with(prefix); });
}

/// The length of the assignable name at the start of `text`.
std::size_t name_length(std::string_view text) {
  const auto belongs = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  return static_cast<std::size_t>(std::ranges::find_if_not(text, belongs) - text.begin());
}

/// "postgres://user:***@host/x" for a URL with a password, else the word.
std::string without_password(std::string_view word) {
  const std::size_t scheme = word.find("://");
  if (scheme == std::string_view::npos) return std::string(word);
  const std::size_t begin = scheme + 3;
  const std::size_t at = word.substr(0, word.find('/', begin)).rfind('@');
  const std::size_t colon = word.find(':', begin);
  if (at == std::string_view::npos || colon == std::string_view::npos || colon > at) return std::string(word);
  return std::string(word.substr(0, colon + 1)) + std::string(mask) + std::string(word.substr(at));
}

/// A word without spaces, alone or in a script.
std::string masked_word(std::string_view word) {
  const std::size_t quoted = std::min(word.find_first_not_of("\"'([{"), word.size());
  const std::string_view inside = word.substr(quoted);
  const std::size_t name = name_length(inside);
  if (name > 0 && name + 1 < inside.size() && inside[name] == '=' && names_a_secret(inside.substr(0, name)))
    return std::string(word.substr(0, quoted + name + 1)) + std::string(mask);
  if (begins_like_a_token(inside)) return std::string(mask);
  const std::size_t value = inside.find('=');
  if (value != std::string_view::npos && begins_like_a_token(inside.substr(value + 1)))
    return std::string(word.substr(0, quoted + value + 1)) + std::string(mask);
  return without_password(word);
}

/// An argument of several words, where the one after "--token", "Bearer" or "Authorization:" is also masked.
std::string masked_words(std::string_view text) {
  std::string masked;
  bool follows = false;
  while (!text.empty()) {
    const std::size_t gap = std::min(text.find_first_not_of(spaces), text.size());
    masked += text.substr(0, gap);
    text.remove_prefix(gap);
    const std::string_view word = text.substr(0, text.find_first_of(spaces));
    text.remove_prefix(word.size());
    const bool authorization = words_of(word) == std::vector<std::string>{"authorization"};
    const bool scheme = follows && (words_of(word) == std::vector<std::string>{"bearer"} ||
                                    words_of(word) == std::vector<std::string>{"basic"});
    masked += follows && !scheme && !word.starts_with("--") && !word.empty() ? std::string(mask) : masked_word(word);
    const bool option = word.starts_with("--") && name_length(word) == word.size() && names_a_secret(word);
    follows = option || authorization || scheme || word == "Bearer";
  }
  return masked;
}

std::string masked_argument(const std::string& argument, bool follows) {
  if (follows && !argument.starts_with("--")) return std::string(mask);
  const std::size_t name = name_length(argument);
  // Everything after the sign, spaces included.
  if (argument.starts_with('-') && name < argument.size() && argument[name] == '=' &&
      names_a_secret(std::string_view(argument).substr(0, name)))
    return argument.substr(0, name + 1) + std::string(mask);
  return masked_words(argument);
}

bool awaits_a_secret(const std::string& argument) {
  return argument.starts_with('-') && name_length(argument) == argument.size() && names_a_secret(argument);
}

}  // namespace

std::vector<std::string> own_arguments() {
  const Result<std::string> file = read_whole_file("/proc/self/cmdline");
  const std::string text = file ? *file : std::string();
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

std::string text_of_arguments(std::span<const std::string> arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : " ") + argument;
  return text;
}

std::string masked_value(std::string_view name, const std::string& value) {
  return names_a_secret(name) ? std::string(mask) : masked_argument(value, false);
}

std::string masked_text_of_arguments(std::span<const std::string> arguments) {
  std::vector<std::string> masked;
  bool follows = false;
  for (const std::string& argument : arguments) {
    masked.push_back(masked_argument(argument, follows));
    follows = awaits_a_secret(argument);
  }
  return text_of_arguments(masked);
}

namespace {

constexpr std::size_t longest_name = 100, longest_value = 1000;  // before escaping

constexpr std::array<std::string_view, 19> names{"GROUP_RANK",
                                                 "LOCAL_WORLD_SIZE",
                                                 "MASTER_ADDR",
                                                 "NODE_RANK",
                                                 "PMIX_NAMESPACE",
                                                 "POD_NAME",
                                                 "JOB_NAME",
                                                 "TORCHELASTIC_MAX_RESTARTS",
                                                 "TORCHELASTIC_RESTART_COUNT",
                                                 "TORCHELASTIC_RUN_ID",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "CUDA_DEVICE_ORDER",
                                                 "NVIDIA_VISIBLE_DEVICES",
                                                 "PYTORCH_ALLOC_CONF",
                                                 "PYTORCH_CUDA_ALLOC_CONF",
                                                 "PYTORCH_HIP_ALLOC_CONF",
                                                 "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                                 "TF_FORCE_GPU_ALLOW_GROWTH",
                                                 "TF_GPU_ALLOCATOR"};
// Open MPI's last: it may have settings by the thousands, which would leave no room for others.
constexpr std::array<std::string_view, 4> prefixes{"SLURM_", "PMI_", "XLA_PYTHON_CLIENT_", "OMPI_"};

bool is_one_that_counts(std::string_view name) {
  const auto of_a_launcher = [name](const Launcher& launcher) {
    return name == launcher.rank || (launcher.world_size != nullptr && name == launcher.world_size) ||
           (launcher.local_rank != nullptr && name == launcher.local_rank);
  };
  return std::ranges::find(names, name) != names.end() || std::ranges::any_of(launchers, of_a_launcher);
}

bool begins_with(std::string_view name, std::string_view prefix) {
  return name.size() <= longest_name && is_printable(name) && name.starts_with(prefix);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "12.4.127" of "libcudart.so.12.4.127" and of "libcudart-0123abcd.so.12.4.127"; empty: another library, or no
/// version.
std::string_view version_of(std::string_view file, std::string_view library) {
  if (!file.starts_with(library)) return {};
  const std::size_t suffix = file.find(".so.", library.size());
  if (suffix == std::string_view::npos || (suffix != library.size() && file[library.size()] != '-')) return {};
  return file.substr(suffix + 4);
}

/// "3.11" of "python3.11" and "libpython3.11.so.1.0".
std::string_view python_version(std::string_view file) {
  for (const std::string_view program : {"python", "libpython"}) {
    if (!file.starts_with(program)) continue;
    const std::string_view rest = file.substr(program.size());
    std::size_t length = 0;
    while (length < rest.size() && (is_digit(rest[length]) || rest[length] == '.')) ++length;
    while (length > 0 && rest[length - 1] == '.') --length;
    if (rest.substr(0, length).find('.') != std::string_view::npos) return rest.substr(0, length);
  }
  return {};
}

/// What torch/version.py says, for torch/lib/libtorch_cpu.so.
std::string torch_version(std::string_view library) {
  constexpr std::string_view assignment = "__version__ = '";
  std::ifstream file(std::filesystem::path(library).parent_path().parent_path() / "version.py");
  std::array<char, 4096> beginning{};
  file.read(beginning.data(), beginning.size());
  const std::string_view text(beginning.data(), static_cast<std::size_t>(file.gcount()));
  const std::size_t begin = text.find(assignment);
  if (begin == std::string_view::npos) return {};
  const std::string_view version = text.substr(begin + assignment.size());
  return std::string(version.substr(0, version.find('\'')));
}

void add(Variables& variables, std::string name, std::string_view value) {
  if (!value.empty() && value.size() <= longest_value) variables.try_emplace(std::move(name), printable(value));
}

}  // namespace

Variables job_environment(const char* const* environment, bool mask) {
  Variables found;
  const auto add_those = [&](auto&& wanted) {
    for (const char* const* at = environment; at != nullptr && *at != nullptr && found.size() < max_variables; ++at) {
      const std::string_view entry = *at;
      const std::size_t name = entry.find('=');
      if (name == std::string_view::npos || !wanted(entry.substr(0, name))) continue;
      const std::string key(entry.substr(0, name));
      const std::string value(entry.substr(name + 1, longest_value));
      found.try_emplace(key, printable(mask ? masked_value(key, value) : value));
    }
  };
  add_those(is_one_that_counts);  // whatever else there is
  for (const std::string_view prefix : prefixes)
    add_those([prefix](std::string_view name) { return begins_with(name, prefix); });
  return found;
}

Variables loaded_versions(std::istream& maps) {
  Variables versions;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const std::string_view path = std::string_view(line).substr(begin), file = base_name(path);
    add(versions, "cuda.driver", version_of(file, "libcuda"));
    add(versions, "cuda.runtime", version_of(file, "libcudart"));
    add(versions, "python", python_version(file));
    if (file == "libtorch_cpu.so" && !versions.contains("torch")) add(versions, "torch", torch_version(path));
  }
  return versions;
}

}  // namespace memreel::agent
