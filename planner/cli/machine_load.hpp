#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mc2::cli {

/// How many threads of other processes run, or wait for a core, on this machine: the mean of some looks at /proc/stat,
/// which take 10 ms together. Call it before this process starts threads of its own. Empty if the system does not say.
[[nodiscard]] std::optional<double> other_running_threads();

/// What to say of so many threads of others; empty if they keep less than a quarter of the cores busy. The host
/// backend computes on all cores, so its times grow beside other programs.
[[nodiscard]] std::optional<std::string> load_note(double other_threads, int core_count);

/// load_note() of this machine now. Empty for other backends than "host": GPUs compute beside programs on the cores,
/// and the ranks of an MPI job would count as others.
[[nodiscard]] std::optional<std::string> load_note_now(std::string_view backend);

/// Writes load_note_now() to standard error, before something is measured.
void tell_load(std::string_view backend);

} // namespace mc2::cli
