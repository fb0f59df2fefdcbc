// SPDX-License-Identifier: Apache-2.0
// The modes of fake_program: each takes the numbers of the command line and returns the exit code. The table in
// fake_program.cpp says what each is for.
#pragma once

#include <cstdint>
#include <vector>

namespace fake_program {

using Numbers = std::vector<std::uint64_t>;

// memory.cpp
int single(const Numbers& n);
int threads(const Numbers& n);
int short_threads(const Numbers& n);
int nested(const Numbers& n);
int failures(const Numbers& n);
int kinds(const Numbers& n);
int pools(const Numbers& n);
int vmm(const Numbers& n);
int capture(const Numbers& n);
int leak(const Numbers& n);
int initialize(const Numbers& n);

// devices.cpp
int devices(const Numbers& n);
int open_of_another(const Numbers& n);
int contexts(const Numbers& n);

// processes.cpp
int fork_late(const Numbers& n);
int fork_early(const Numbers& n);
int fork_often(const Numbers& n);
int exec(const Numbers& n);
int spawn(const Numbers& n);

// places.cpp
int locations(const Numbers& n);
int nodes(const Numbers& n);
int green(const Numbers& n);
int foreign_streams(const Numbers& n);

// endings.cpp
int close_files(const Numbers& n);
int cancel(const Numbers& n);
int exit_in_handler(const Numbers& n);
int exit_inside(const Numbers& n);
int quick_exit(const Numbers& n);
int crash(const Numbers& n);
int endless(const Numbers& n);
int handle_signal(const Numbers& n);
int wait_for_signal(const Numbers& n);
int nothing(const Numbers& n);

// races.cpp
int race(const Numbers& n);
int ordered_race(const Numbers& n);

}  // namespace fake_program
