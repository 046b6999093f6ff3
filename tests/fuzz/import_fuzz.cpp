#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mc2/profiler/importer.hpp"

extern const std::string_view kFuzzedFormat; // defined in import_format.cpp

/// Reads the bytes as a log of kFuzzedFormat, with an answer to everything that the importer may ask, and as a log
/// whose format must be detected. Then makes a profile of the samples. It must return whatever the bytes are.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mc2;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool is_sure = size > 0 && data[size - 1] % 2 == 0;
  profiler::ImportAnswers answers{.buffers = profiler::Buffers::Both};
  answers.bytes_from_neighbour = true;
  if (is_sure) {
    answers = {.collective = planner::Collective::AllGather,
               .dtype = planner::DType::F16,
               .world_size = 8,
               .message_bytes = 4096};
    answers.m = answers.n = answers.k = 64;
    answers.blocks = "16,3x16";
  }
  profiler::TimingSet timings;
  const auto source = profiler::memory_log(bytes);
  const auto summary = profiler::import_log(*source, kFuzzedFormat, answers, timings);
  if (!summary) return 0;
  auto count = static_cast<std::int64_t>(timings.fused().size());
  for (const auto& [key, group] : timings.groups()) count += group.count;
  if (count != summary.value().took_count) std::abort();
  const auto profile = profiler::assemble_profile(timings, summary.value().facts,
                                                  {.kind = planner::OpKind::MatmulAllReduce, .device = "fuzz"});
  if (!profile) return 0;
  for (const auto& cut : profile.value().cuts)
    if (!(cut.fused_us > 0) || cut.run_count < 1 || !(cut.relative_error >= 0)) std::abort();
  for (const auto& sample : profile.value().profile.samples)
    if (sample.time.count() <= 0 || sample.block_rows < 1) std::abort();
  return 0;
}
