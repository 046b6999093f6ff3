#pragma once

#include <string_view>

#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {

/// One pair of functions per format; the table is in importer_registry.cpp.
[[nodiscard]] bool detect_cuts(std::string_view head);
[[nodiscard]] Result<void> read_cuts(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_hccl_test(std::string_view head);
[[nodiscard]] Result<void> read_hccl_test(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_imb(std::string_view head);
[[nodiscard]] Result<void> read_imb(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_msprof_db(std::string_view head);
[[nodiscard]] Result<void> read_msprof_db(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_msprof_kernels(std::string_view head);
[[nodiscard]] Result<void> read_msprof_kernels(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_msprof_statistic(std::string_view head);
[[nodiscard]] Result<void> read_msprof_statistic(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_msprof_trace(std::string_view head);
[[nodiscard]] Result<void> read_msprof_trace(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_nccl_inspector(std::string_view head);
[[nodiscard]] Result<void> read_nccl_inspector(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_nccl_tests(std::string_view head);
[[nodiscard]] Result<void> read_nccl_tests(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_nccl_tests_json(std::string_view head);
[[nodiscard]] Result<void> read_nccl_tests_json(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_nsys(std::string_view head);
[[nodiscard]] Result<void> read_nsys(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_osu(std::string_view head);
[[nodiscard]] Result<void> read_osu(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_pytorch_trace(std::string_view head);
[[nodiscard]] Result<void> read_pytorch_trace(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
[[nodiscard]] bool detect_torch_npu(std::string_view head);
[[nodiscard]] Result<void> read_torch_npu(LogReader& reader, const ImportAnswers& answers, LogSink& sink);

} // namespace mc2::profiler
