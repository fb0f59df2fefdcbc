// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/control_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <string>
#include <thread>

namespace memreel::attach {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): its only way in

const Message status{.word = "status", .fields = {}};

/// This process's socket, with a thread that replies with the request's word until it is "stop".
class Listening {
 public:
  explicit Listening(std::chrono::milliseconds patience = {}) : open_(socket_.open()) {
    if (!open_) return;
    thread_ = std::thread([this, patience] {
      socket_.run(
          [](const Message& question) {
            return Answer{.message = {.word = "ok", .fields = {{"asked", question.word}}},
                          .last = question.word == "stop"};
          },
          patience, [] { return true; });
    });
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    if (thread_.joinable()) {
      ask(::getpid(), {.word = "stop", .fields = {}}, 1s);
      thread_.join();
    }
  }
  bool is_open() const { return open_; }
  void join() { thread_.join(); }
  ControlSocket& socket() { return socket_; }

 private:
  ControlSocket socket_;
  bool open_ = false;
  std::thread thread_;
};

TEST(ControlSocket, AnswersEachQuestion) {
  const Listening listening;
  ASSERT_TRUE(listening.is_open());
  for (int i = 0; i < 50; ++i) {
    const Reply reply = ask(::getpid(), status, 5s);
    ASSERT_TRUE(reply.reached);
    ASSERT_TRUE(reply.answer);
    EXPECT_EQ((*reply.answer)["asked"], "status");
  }
}

TEST(ControlSocket, NobodyThere) {
  EXPECT_FALSE(ask(::getpid(), status, 1s).reached);
  EXPECT_FALSE(ask(1 << 22, status, 1s).reached);
}

TEST(ControlSocket, OneForAProcess) {
  const Listening listening;
  ControlSocket second;
  EXPECT_FALSE(second.open());
}

TEST(ControlSocket, IsGoneBeforeTheLastAnswer) {
  for (int i = 0; i < 20; ++i) {
    Listening listening;
    ASSERT_TRUE(listening.is_open());
    ASSERT_TRUE(ask(::getpid(), {.word = "stop", .fields = {}}, 5s).reached);
    EXPECT_FALSE(ask(::getpid(), status, 1s).reached);
    listening.join();
  }
}

TEST(ControlSocket, LeavesWhenNobodyComes) {
  Listening listening(20ms);
  ASSERT_TRUE(listening.is_open());
  listening.join();
  EXPECT_FALSE(ask(::getpid(), status, 1s).reached);
}

TEST(ControlSocket, AChildDoesNotKeepItsParentsName) {
  Listening listening;
  ASSERT_TRUE(listening.is_open());
  const pid_t child = ::fork();
  if (child == 0) {
    listening.socket().close();
    ControlSocket own;
    const bool opened = own.open();
    own.close();
    ::_exit(opened ? 0 : 1);
  }
  int code = 1;
  ASSERT_EQ(::waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(ask(::getpid(), status, 5s).reached);  // the child closed its own
}

TEST(ControlSocket, AProcessMayEndInsteadOfAnswering) {
  std::array<int, 2> opened{};
  ASSERT_EQ(::pipe2(opened.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that failed leaves it running
    ControlSocket own;
    const char is_open = own.open() ? 1 : 0;
    if (::write(opened[1], &is_open, 1) != 1) ::_exit(1);
    own.run([](const Message&) -> Answer { ::_exit(0); }, 0ms, [] { return false; });
    ::_exit(1);
  }
  char is_open = 0;
  ASSERT_EQ(::read(opened[0], &is_open, 1), 1);
  ASSERT_EQ(is_open, 1);
  const Reply reply = ask(child, status, 5s);
  EXPECT_TRUE(reply.reached);
  ASSERT_FALSE(reply.answer);
  EXPECT_EQ(reply.answer.error().what, "ended before it answered");
  ::waitpid(child, nullptr, 0);
  ::close(opened[0]);
  ::close(opened[1]);
}

/// Programs that close all file descriptors they did not open, and then reuse the same numbers.
TEST(ControlSocket, ANumberThatIsAnotherFilesByNowIsLeftAlone) {
  const auto is_open = [](int number) { return ::fcntl(number, F_GETFD) >= 0; };
  std::array<bool, 2000> before{};
  for (int number = 0; number < 2000; ++number) before[static_cast<std::size_t>(number)] = is_open(number);
  ControlSocket socket;
  ASSERT_TRUE(socket.open());
  int number = 0;
  while (number < 2000 && is_open(number) == before[static_cast<std::size_t>(number)]) ++number;
  ASSERT_LT(number, 2000);
  const int other = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::dup3(other, number, O_CLOEXEC), number);
  socket.run([](const Message&) { return Answer{.message = {}}; }, 1ms, [] { return false; });
  EXPECT_GE(::fcntl(number, F_GETFD), 0);
  ::close(number);
  ::close(other);
}

}  // namespace
}  // namespace memreel::attach
