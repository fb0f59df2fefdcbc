// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/mpi/exchange.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>

#include "analyzer/fleet/map.h"

namespace memreel::mpi {
namespace {

namespace fs = std::filesystem;

constexpr int ask_tag = 1, answer_tag = 2;
constexpr std::int64_t nothing_left = -1;
constexpr std::chrono::milliseconds patience{2};  // until the first process polls for requests again

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text + '\0';
  return all;
}

std::vector<std::string> parts_of(const std::string& all) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find('\0', at);
    texts.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return texts;
}

/// Gathers every process's text on the first one.
std::vector<std::string> gather_texts(const Session& session, const std::string& text) {
  const auto size = static_cast<int>(text.size());
  std::vector<int> sizes(static_cast<std::size_t>(session.size()));
  MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> offsets(sizes.size());
  int total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    offsets[i] = total;
    total += sizes[i];
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  MPI_Gatherv(text.data(), size, MPI_CHAR, all.data(), sizes.data(), offsets.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  if (session.first())
    for (std::size_t i = 0; i < sizes.size(); ++i)
      texts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(sizes[i])));
  return texts;
}

/// The items not yet handed out.
class Pile {
 public:
  Pile(std::size_t count, const std::function<bool(std::size_t, int)>& may_take)
      : taken_(count, false), may_take_(may_take) {}

  std::int64_t next_for(int process) {
    while (first_ < taken_.size() && taken_[first_]) ++first_;
    for (std::size_t i = first_; i < taken_.size(); ++i) {
      if (taken_[i] || !may_take_(i, process)) continue;
      taken_[i] = true;
      return static_cast<std::int64_t>(i);
    }
    return nothing_left;
  }

 private:
  std::vector<bool> taken_;
  std::size_t first_ = 0;
  const std::function<bool(std::size_t, int)>& may_take_;
};

/// Answers pending requests. Returns how many processes were told that nothing is left.
int answer_questions(Pile& pile) {
  int dismissed = 0;
  for (;;) {
    int asked = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, ask_tag, MPI_COMM_WORLD, &asked, &status);
    if (asked == 0) return dismissed;
    char question = 0;
    MPI_Recv(&question, 1, MPI_CHAR, status.MPI_SOURCE, ask_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const std::int64_t item = pile.next_for(status.MPI_SOURCE);
    MPI_Send(&item, 1, MPI_INT64_T, status.MPI_SOURCE, answer_tag, MPI_COMM_WORLD);
    if (item == nothing_left) ++dismissed;
  }
}

void work_and_hand_out(const Session& session, ChildPool& pool, unsigned jobs, Pile& pile) {
  bool more = true;
  for (int others = session.size() - 1; more || pool.size() > 0 || others > 0;) {
    while (more && pool.size() < jobs) {
      const std::int64_t item = pile.next_for(0);
      more = item != nothing_left;
      if (more) pool.start(static_cast<std::size_t>(item));
    }
    pool.wait(patience);
    others -= answer_questions(pile);
  }
}

/// Waits without spinning, unlike MPI's own waiting, to leave the processor to working processes.
void wait_quietly(MPI_Request& request) {
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(patience);
  }
}

// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not know that MPI_Test ends a request
/// Requests the next item before the last one is done, so that no process waits for an answer.
void work_as_told(ChildPool& pool, unsigned jobs) {
  std::int64_t item = nothing_left;
  MPI_Request answer = MPI_REQUEST_NULL;
  const auto ask = [&] {
    const char question = 0;
    MPI_Irecv(&item, 1, MPI_INT64_T, 0, answer_tag, MPI_COMM_WORLD, &answer);
    MPI_Send(&question, 1, MPI_CHAR, 0, ask_tag, MPI_COMM_WORLD);
  };
  bool asked = true, in_hand = false;
  for (ask(); asked || in_hand || pool.size() > 0;) {
    if (asked && pool.size() == 0) {
      wait_quietly(answer);
      asked = false;
      in_hand = item != nothing_left;
    } else if (asked) {
      int answered = 0;
      MPI_Test(&answer, &answered, MPI_STATUS_IGNORE);
      asked = answered == 0;
      in_hand = !asked && item != nothing_left;
    }
    if (in_hand && pool.size() < jobs) {
      pool.start(static_cast<std::size_t>(item));
      in_hand = false;
      asked = true;
      ask();
    }
    if (pool.size() > 0) pool.wait(asked ? patience : std::chrono::minutes(1));
  }
}
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

}  // namespace

Session::Session(int& argc, char**& argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

Session::~Session() { MPI_Finalize(); }

void end_all(int code) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): not reached
}

std::vector<std::string> broadcast(const Session& session, const std::vector<std::string>& texts) {
  std::string all = session.first() ? joined(texts) : std::string();
  auto size = static_cast<std::int64_t>(all.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  all.resize(static_cast<std::size_t>(size));
  MPI_Bcast(all.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
  return parts_of(all);
}

std::vector<Item> gather(const Session& session, const std::vector<fs::path>& files) {
  std::vector<std::string> own;
  for (const fs::path& file : files) {
    std::error_code problem;
    const std::uintmax_t size = fs::file_size(file, problem);
    const std::string machine = machine_of(file);
    own.push_back(std::to_string(problem ? 0 : size) + " " + (machine.empty() ? "-" : machine) + " " + file.string());
  }
  std::map<std::string, Item> items;
  const std::vector<std::string> all = gather_texts(session, joined(own));
  for (std::size_t process = 0; process < all.size(); ++process) {
    for (const std::string& line : parts_of(all[process])) {
      const std::size_t blank = line.find(' '), second = line.find(' ', blank + 1);
      Item& item = items[line.substr(blank + 1)];
      item.machine = line.substr(blank + 1, second - blank - 1);
      if (item.machine == "-") item.machine.clear();
      item.file = line.substr(second + 1);
      item.bytes = std::max<std::uint64_t>(item.bytes, std::stoull(line.substr(0, blank)));
      item.processes.push_back(static_cast<int>(process));
    }
  }
  std::vector<Item> list;
  for (auto& [name, item] : items) list.push_back(std::move(item));
  std::ranges::stable_sort(list, std::greater{}, &Item::bytes);
  return list;
}

void share_out(const Session& session, std::size_t count, unsigned jobs, const ChildLimits& limits,
               const std::function<bool(std::size_t, int)>& may_take,
               const std::function<std::string(std::size_t)>& work,
               const std::function<void(std::size_t, ChildOutcome)>& done,
               const std::function<std::uint64_t(std::size_t)>& input) {
  ChildPool pool(limits, work, done, input);
  if (session.first()) {
    Pile pile(count, may_take);
    work_and_hand_out(session, pool, jobs, pile);
  } else {
    work_as_told(pool, jobs);
  }
  MPI_Request everybody = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &everybody);
  wait_quietly(everybody);
}

}  // namespace memreel::mpi
