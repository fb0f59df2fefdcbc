// SPDX-License-Identifier: Apache-2.0
// Logs as launchers, terminals, shells and attackers make them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/analysis/explain/answer.h"
#include "tests/unit/explain/pasted_logs.h"

namespace memreel::explain {
namespace {

TEST(Logs, LinesMayBeBrokenAnywhere) {
  const std::string text = torch_text("2.00 GiB", "23.64 GiB", "512.00 MiB",
                                      "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is "
                                      "reserved by PyTorch but unallocated.");
  for (std::size_t width = 80; width < 130; ++width) {
    std::string broken;
    for (std::size_t at = 0; at < text.size(); at += width) broken += text.substr(at, width) + "\n";
    const Failure failure = only_failure(broken);
    EXPECT_EQ(failure.kind, Kind::fragmentation) << broken;
    EXPECT_EQ(failure.figures[Field::live], std::uint64_t{14} << 30U) << broken;
    EXPECT_EQ(failure.figures[Field::free], std::uint64_t{512} << 20U) << broken;
  }
}

std::string in_lines(std::string_view text, std::size_t width, std::string_view prefix, std::string_view end) {
  std::string lines;
  for (; !text.empty(); text.remove_prefix(std::min(width, text.size())))
    (lines += prefix).append(text.substr(0, width)).append(end);
  return lines;
}

TEST(Logs, BrokenLinesMayHaveAnyEndsAndPrefixes) {
  std::string text =
      torch_text("2.00 GiB", "23.64 GiB", "4.50 GiB",
                 "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 3.25 GiB is reserved by "
                 "PyTorch but unallocated.");
  text.pop_back();
  for (const std::string_view prefix :
       {"", "[rank3]: ", "[default3]:", "[1,3]<stderr>:", "worker-1  | ", "(Worker pid=12) ",
        "3: ", "2026-01-01T00:00:00.123456789Z stderr F ", "Nov 30 02:45:20 node-7 python3[123]: ",
        "2026-11-30T02:45:20.123456+00:00 node-7 python3[123]: ", "2026-11-30T02:45:20+0000 node-7 python3[123]: "})
    for (const std::string_view end : {"\n", "\r\n", "\r\r\n"})
      for (std::size_t width = 60; width < 200; ++width) {
        const std::string log = "step 1\n" + in_lines(text, width, prefix, end);
        const Failure failure = only_failure(log);
        EXPECT_EQ(failure.grammar->framework, "PyTorch") << log;
        EXPECT_EQ(failure.figures[Field::requested], std::uint64_t{2} << 30U) << log;
        EXPECT_EQ(failure.figures[Field::capacity], static_cast<std::uint64_t>(23.64 * (1U << 30U) + 0.5)) << log;
        EXPECT_EQ(failure.figures[Field::free], std::uint64_t{9} << 29U) << log;
        EXPECT_EQ(failure.figures[Field::live], std::uint64_t{14} << 30U) << log;
        EXPECT_EQ(failure.figures[Field::cached], std::uint64_t{13} << 28U) << log;
      }
}

TEST(Logs, ALineThatACollectorBrokeGoesOnInTheNextOfItsStream) {
  const std::string text =
      old_text("2.87 GiB",
               "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved in total by "
               "PyTorch)");
  const std::string before = "2026-01-01T00:00:00.1Z ", after = "2026-01-01T00:00:00.123456789+01:00 ";
  for (const std::string& filler : {std::string(), std::string(16'000, 'x')})
    for (std::size_t at = 1; at + 2 < text.size(); ++at) {
      const std::string log = before + "stderr P " + filler + text.substr(0, at) + "\n" + before + "stderr P " +
                              text.substr(at, 1) + "\n" + after + "stderr F " + text.substr(at + 1);
      for (const std::size_t piece : {log.size(), std::size_t{13}}) {
        const std::vector<Failure> failures = failures_in("first\n" + log + log, piece);
        ASSERT_EQ(failures.size(), 1U) << log;
        EXPECT_EQ(failures[0].count, 2U) << log;
        EXPECT_LE(failures[0].line, 4U) << log;
        EXPECT_EQ(failures[0].kind, Kind::fragmentation) << log;
        EXPECT_EQ(failures[0].figures[Field::live], static_cast<std::uint64_t>(8.77 * (1U << 30U) + 0.5)) << log;
      }
    }
  std::string log;
  for (int i = 0; i < 3'000; ++i)
    log += before + "stderr P " + std::string(1'000, 'x') + "\n" + before + "stderr F x\n";
  const std::string plain = "CUDA error: out of memory\n";
  const std::string numbers = "{\"MESSAGE\":[" + std::string(3'000, '1') + ",32]}\n";
  const std::string whole = log + text + log + numbers + plain;
  const std::vector<Failure> failures = failures_in(whole);
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(whole.substr(failures[0].offset).find("CUDA"), 0U);
  EXPECT_EQ(whole.substr(failures[1].offset).find("CUDA"), 0U);
  EXPECT_EQ(failures[1].line, 12'003U);
  EXPECT_TRUE(failures_in(before + "stderr F CUDA error: out of me\n" + after + "stderr F mory\n").empty());
  EXPECT_TRUE(failures_in(before + "stderr P CUDA error: out of me\n" + after + "stdout F mory\n").empty());
  EXPECT_EQ(kind_in(before + "stderr P CUDA error: out of me\n" + after + "stderr F mory\n"), "no_figures");
}

TEST(Logs, JournaldWritesMessagesAsListsOfBytes) {
  const std::string text =
      "\x1b[31m" + old_text("2.87 GiB",
                            "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; "
                            "13.71 GiB reserved in total by PyTorch");
  for (const auto& [begin, comma, end] :
       {std::tuple("\"MESSAGE\":[", ",", "],"), std::tuple("\t\"MESSAGE\" : [\n\t\t", ",\n\t\t", "\n\t],\n")}) {
    std::string log = "{\"_PID\":\"12\",";
    log += begin;
    for (const char letter : text) log += std::to_string(int(letter)) + (&letter == &text.back() ? "" : comma);
    log += end + std::string("\"PRIORITY\":\"3\"}\n");
    for (const std::size_t piece : {log.size(), std::size_t{1}}) {
      const std::vector<Failure> failures = failures_in(log, piece);
      ASSERT_EQ(failures.size(), 1U) << log;
      EXPECT_EQ(failures[0].kind, Kind::fragmentation) << log;
    }
  }
  EXPECT_TRUE(
      failures_in("{\"MESSAGE\":[1,2\n{\"MESSAGE\":[\n{\"MESSAGE\":[]}\"MESSAGE\":[99999999999999,-1,").empty());
}

TEST(Logs, RanksMayBeInterleaved) {
  const auto lines_of = [](int rank) {
    return std::vector<std::string>{
        "[rank" + std::to_string(rank) + "]: Allocation on device " + std::to_string(rank) +
            " would exceed allowed memory. (out of memory)\n",
        "[rank" + std::to_string(rank) + "]: Currently allocated     : 2" + std::to_string(rank) + ".00 GiB\n",
        "[rank" + std::to_string(rank) + "]: Requested               : 3.00 GiB\n",
        "[rank" + std::to_string(rank) + "]: Device limit            : 31.00 GiB\n",
        "[rank" + std::to_string(rank) + "]: Free (according to CUDA): 0 bytes\n"};
  };
  std::string log;
  for (std::size_t i = 0; i < 5; ++i)
    for (int rank = 0; rank < 3; ++rank) log += lines_of(rank)[i];
  const std::vector<Failure> failures = failures_in(log);
  ASSERT_EQ(failures.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(failures[i].source, "rank " + std::to_string(i));
    EXPECT_EQ(failures[i].figures[Field::live], (20 + i) << 30U);
  }
}

TEST(Logs, PrefixesColoursAndEscapesDoNotMatter) {
  const std::string text =
      "CUDA out of memory. Tried to allocate 2.87 GiB (GPU 3; 14.76 GiB total capacity; 8.77 GiB already allocated; "
      "19.75 MiB free; 13.71 GiB reserved in total by PyTorch)";
  for (const std::string& log :
       {"\x1b[31mRuntimeError\x1b[0m: " + text + "\r\n", "[1,3]<stderr>:" + text + "\n",
        "2026-11-26T07:00:00.123Z stderr F " + text + "\n",
        "{\"level\": \"error\", \"message\": \"Traceback:\\n  File x\\nRuntimeError: " + text + "\\n\"}\n",
        "(RayWorker pid=123, ip=10.0.0.1) ERROR 06-30 13:53:19 [worker.py:1] " + text + "\n",
        "worker-1  | " + text + "\n", "E       " + text + "\n", std::string("no line feed at all: ") + text}) {
    const Failure failure = only_failure(log);
    EXPECT_EQ(failure.kind, Kind::fragmentation) << log;
    EXPECT_EQ(failure.figures[Field::device], 3U) << log;
  }
}

TEST(Logs, Utf16IsReadWithAndWithoutItsMark) {
  const std::string text =
      "step 1\r\n" +
      old_text("2.87 GiB",
               "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved "
               "in total by PyTorch");
  std::string little, big, cyrillic;
  for (const char letter : text) {
    little += {letter, '\0'};
    big += {'\0', letter};
  }
  for (int i = 0; i < 50; ++i) cyrillic += {static_cast<char>(0x10 + i), '\x04'};
  // The last: one program appended to the log of another.
  for (const std::string& log : {"\xff\xfe" + little, little, "\xfe\xff" + big, big, cyrillic + little,
                                 std::string("step 0\r\n") + little, std::string("step 0\n") + big})
    for (const std::size_t piece : {log.size(), std::size_t{1}, std::size_t{7}}) {
      const std::vector<Failure> failures = failures_in(log, piece);
      ASSERT_EQ(failures.size(), 1U);
      EXPECT_EQ(failures[0].kind, Kind::fragmentation);
      EXPECT_EQ(failures[0].line, log.starts_with("step 0") ? 3U : 2U);
    }
}

TEST(Logs, TextInAnyEncodingIsTakenAndBytesThatAreNoneAreNot) {
  std::string cyrillic, utf16 = "\xff\xfe", bytes;
  for (int i = 0; i < 5'000; ++i) {
    const auto letter = static_cast<char>(0x10 + i % 0x40);  // from U+0410 on
    cyrillic += static_cast<char>(0xC0 + i % 0x40);          // Windows-1251
    utf16 += {letter, '\x04'};
    bytes += static_cast<char>(i * 37 % 256);
  }
  const std::string hole(10'000, '\0');  // of a log that was truncated while it was written
  for (const std::string& text : {cyrillic, utf16, hole, hole + "out of memory"}) EXPECT_TRUE(LogScan().take(text));
  EXPECT_FALSE(LogScan().take(bytes));
}

TEST(Logs, AFailureThatIsPrintedAgainIsCounted) {
  const std::string text =
      old_text("2.87 GiB",
               "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved "
               "in total by PyTorch");
  EXPECT_EQ(only_failure(text + "Traceback\n" + text).count, 2U);
}

TEST(Logs, PiecesOfAnySizeGiveTheSame) {
  std::string log;
  for (int i = 0; i < 30; ++i)
    log += std::string(static_cast<std::size_t>(i) * 997, 'x') + "\n" +
           old_text(std::to_string(100 + i) + ".00 MiB",
                    "14.76 GiB total capacity; 13.60 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved in "
                    "total by PyTorch");
  const std::vector<Failure> whole = failures_in(log);
  ASSERT_EQ(whole.size(), 30U);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}}) {
    const std::vector<Failure> failures = failures_in(log, piece);
    ASSERT_EQ(failures.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(failures[i].line, 2 * i + 2);
      EXPECT_EQ(failures[i].figures, whole[i].figures);
    }
  }
}

TEST(Logs, FactsAndWarningsDoNotHideAVagueTextOnAnotherLine) {
  const std::string plain = "RuntimeError: CUDA error: out of memory\n";
  EXPECT_EQ(kind_in("INFO 01-15 [gpu_model_runner.py:2007] Model loading took 7.5 GiB and 3.1 seconds\n" + plain),
            "no_figures");
  EXPECT_EQ(kind_in("llama_model_load: using device CUDA1 (NVIDIA A10) - 22000 MiB free\n" + plain), "no_figures");
  const std::string refused =
      "failed to allocate 7.50G (8053063680 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n";
  const std::string pinned = "ggml_cuda_host_malloc: failed to allocate 512.00 MiB of pinned memory: out of memory\n";
  for (const std::string& warning : {refused, pinned}) {
    EXPECT_EQ(failures_in(warning).size(), 1U) << warning;
    for (const std::string& vague :
         {plain, std::string("Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED\n"),
          std::string("Failed setting context: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n")}) {
      for (const std::string& log : {warning + "step\n" + vague, vague + "step\n" + warning}) {
        const std::vector<Failure> failures = failures_in(log);
        ASSERT_EQ(failures.size(), 2U) << log;
        EXPECT_EQ(std::ranges::count(failures, Kind::no_figures, &Failure::kind), 1) << log;
      }
    }
  }
}

TEST(Logs, AVagueTextIsNotPutTogetherFromTwoLines) {
  EXPECT_TRUE(failures_in("The weights of the first stage are now being copied to the device cuda:1, please wait\n"
                          "out of memory: nothing, malloc() of the host failed\n")
                  .empty());
  for (const std::string_view broken :
       {"(Worker pid=5) ERROR a prefix as wide as a terminal is: RuntimeError: CUDA err\nor: out of memory\n",
        "(Worker pid=5) ERROR a prefix as wide as a terminal is: cudaMalloc fail\ned: out of memory\n",
        "a line that is at least as wide as terminals used to be, and no other\nHIP error: out of memory\n",
        "a line that is at least as wide as terminals used to be, and no other\ncuMemAlloc failed: out of memory\n"})
    EXPECT_EQ(kind_in(broken), "no_figures") << broken;
  EXPECT_EQ(kind_in("(EngineCore pid=5) ERROR something that is as wide as a terminal: CUDA error: out of\nmemory\n"),
            "no_figures");
}

TEST(Logs, NamesAndWordsThatContainOthersAreNoFailure) {
  for (const std::string_view log :
       {"ERROR Executor: Exception in task 1.0: java.lang.OutOfMemoryError: Java heap space\n",
        "Reading the document: out of memory (allocated 8388608)\n", "the current process is out of memory\n",
        "    except torch.cuda.OutOfMemoryError as e:\n",
        "AttributeError: module 'torch.cuda' has no attribute 'OutOfMemoryError'\n",
        "INFO: how to avoid CUDA out of memory errors during training\n"})
    EXPECT_TRUE(failures_in(log).empty()) << log;
}

TEST(Logs, ProseIsNoFailure) {
  EXPECT_TRUE(failures_in("the memory is fine; nothing is out of order\nallocated 3 GiB of memory\n").empty());
  EXPECT_TRUE(failures_in("").empty());
}

TEST(Hostile, DigitsEscapesAndKeysWithoutEnd) {
  std::string log = "CUDA out of memory. Tried to allocate " + std::string(3 << 20, '9') + " GiB (GPU 0; ";
  for (int i = 0; i < 20'000; ++i) log += "out of memory Tried to allocate \x1b[";
  log += std::string(1 << 20, '\x1b') + std::string(1 << 20, '\0') + std::string(1 << 20, '\\') +
         std::string(1 << 20, '\n');
  for (const Failure& failure : failures_in(log))
    for (const char letter : text_of(failure, "log", false))
      EXPECT_TRUE(letter == '\n' || letter >= ' ') << int(letter);
}

}  // namespace
}  // namespace memreel::explain
