// SPDX-License-Identifier: Apache-2.0
#include "collector/top/scrape_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace memreel::top {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A server of one text, and its clients.
class Scraped : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = ScrapeServer::open({.host = "127.0.0.1", .port = 0});
    ASSERT_TRUE(opened);
    server_.emplace(*std::move(opened));
    const std::string address = server_->address();
    port_ = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    thread_ = std::thread([this] { server_->run(end_, [this] { return text_; }); });
  }
  void TearDown() override {
    ::eventfd_write(end_, 1);
    if (thread_.joinable()) thread_.join();
    for (const int file : files_) ::close(file);
    ::close(end_);
  }

  int connect() {
    const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    files_.push_back(file);
    return file;
  }

  static void send(int file, const std::string& text) {
    [[maybe_unused]] const ssize_t sent = ::send(file, text.data(), text.size(), MSG_NOSIGNAL);
  }

  static std::string receive(int file) {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t size = 0; (size = ::recv(file, bytes.data(), bytes.size(), 0)) > 0;)
      text.append(bytes.data(), static_cast<std::size_t>(size));
    return text;
  }

  std::string ask(const std::string& request) {
    const int file = connect();
    send(file, request);
    return receive(file);
  }

  std::string scrape() { return ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); }

  ScrapeServer::Text text_ = std::make_shared<const std::string>("a 1\n# EOF\n");

 private:
  std::optional<ScrapeServer> server_;
  std::uint16_t port_ = 0;
  int end_ = ::eventfd(0, EFD_CLOEXEC);
  std::thread thread_;
  std::vector<int> files_;
};

TEST_F(Scraped, AnswersWithTypeAndLength) {
  const std::string answer = scrape();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\na 1\n# EOF\n"));
  EXPECT_THAT(ask("GET /metrics?x=1 HTTP/1.0\n\n"), EndsWith("# EOF\n"));
}

TEST_F(Scraped, RefusesEverythingElse) {
  EXPECT_THAT(ask("GET /etc/passwd HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask("\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask("HEAD /metrics HTTP/1.1\r\n\r\n"), EndsWith("Connection: close\r\n\r\n"));
}

TEST_F(Scraped, ARequestHasAnEnd) {
  EXPECT_EQ(ask("GET /" + std::string(ScrapeServer::largest_request, 'x')), "");
  EXPECT_THAT(scrape(), HasSubstr("200 OK"));
}

TEST_F(Scraped, ThoseWhoSayNothingAreInNobodysWay) {
  for (std::size_t i = 0; i < 3 * ScrapeServer::most_connections; ++i) send(connect(), "GET /met");
  EXPECT_THAT(scrape(), HasSubstr("200 OK")) << "the oldest made room";
}

TEST_F(Scraped, ThoseWhoReadNothingAreInNobodysWay) {
  text_ = std::make_shared<const std::string>(64U << 20U, 'x');  // more than any buffer holds
  for (int i = 0; i < 8; ++i) send(connect(), "GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(scrape().size() >> 20U, 64U);
}

TEST(ScrapeServer, SaysWhyItCannotListen) {
  const auto first = ScrapeServer::open({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first);
  const std::string address = first->address();
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const auto second = ScrapeServer::open({.host = "127.0.0.1", .port = port});
  ASSERT_FALSE(second);
  const std::string owner = "in use, by top_test (process " + std::to_string(::getpid()) + ")";
  EXPECT_THAT(second.error().message(), HasSubstr(owner));
  EXPECT_FALSE(ScrapeServer::open({.host = "example.org", .port = 1}));
}

TEST(PortOwner, IsWhoListens) {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:24B8 0200007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 111 1 0\n"
      "   1: 0100007F:24B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0\n"
      "   2: cut\n";
  EXPECT_EQ(listening_socket(table, 9400), 222U);
  EXPECT_EQ(listening_socket(table, 9401), 0U);
}

}  // namespace
}  // namespace memreel::top
