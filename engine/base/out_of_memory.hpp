// What a process does when the system has no memory left for it.
#pragma once

namespace vitro {

// From here on, an allocation that fails ends the process with one line on stderr and exit code 1, for programs whose only work is one run.
// A run can not go on without memory, and unwinding needs some. Files are put in place whole or not at all (OutputFile), so nothing is
// half-written. Memory under the budget is not meant: Memory::lease() answers.
void exit_when_memory_ends();

}  // namespace vitro
