#include <array>
#include <string_view>

#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {

// Each format has files of its own.
using Detect = bool(std::string_view head);
using Read = Result<void>(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
Detect detect_cuts, detect_hccl_test, detect_imb, detect_msprof_db, detect_msprof_kernels, detect_msprof_statistic,
    detect_msprof_trace, detect_nccl_inspector, detect_nccl_tests, detect_nccl_tests_json, detect_nsys, detect_osu,
    detect_pytorch_trace, detect_torch_npu;
Read read_cuts, read_hccl_test, read_imb, read_msprof_db, read_msprof_kernels, read_msprof_statistic, read_msprof_trace,
    read_nccl_inspector, read_nccl_tests, read_nccl_tests_json, read_nsys, read_osu, read_pytorch_trace, read_torch_npu;

namespace {

// In order of detection: formats with distinctive first bytes come before those that are recognised by their lines.
constexpr std::array kImporters{
    Importer{"msprof_db", "msprof_*.db, table COMMUNICATION_OP", detect_msprof_db, read_msprof_db},
    Importer{"msprof_trace", "msprof_*.json, blocks of fused operators", detect_msprof_trace, read_msprof_trace},
    Importer{"pytorch_trace", "PyTorch profiler, export_chrome_trace()", detect_pytorch_trace, read_pytorch_trace},
    Importer{"nccl_inspector", "NCCL Inspector, JSON lines", detect_nccl_inspector, read_nccl_inspector},
    Importer{"torch_npu", "torch_npu communication.json, cluster_communication.json", detect_torch_npu, read_torch_npu},
    Importer{"nccl_tests_json", "nccl-tests -J, rccl-tests -Z json and -Z csv", detect_nccl_tests_json,
             read_nccl_tests_json},
    Importer{"nsys", "Nsight Systems, nsys stats --report cuda_gpu_trace:nvtx-name", detect_nsys, read_nsys},
    Importer{"cuts", "CSV of measured cuts: blocks,fused_us[,serial_us,...]", detect_cuts, read_cuts},
    Importer{"msprof_statistic", "msprof communication_statistic*.csv, op_statistic*.csv", detect_msprof_statistic,
             read_msprof_statistic},
    Importer{"msprof", "msprof op_summary_*.csv, kernel_details.csv", detect_msprof_kernels, read_msprof_kernels},
    Importer{"hccl_test", "hccl_test", detect_hccl_test, read_hccl_test, true},
    Importer{"imb", "Intel MPI Benchmarks, parts MPI-1 and NBC", detect_imb, read_imb, true},
    Importer{"osu", "OSU micro-benchmarks 5 to 7", detect_osu, read_osu, true},
    Importer{"nccl_tests", "nccl-tests and rccl-tests", detect_nccl_tests, read_nccl_tests, true}};

} // namespace

std::span<const Importer> importer_registry() noexcept { return kImporters; }

} // namespace mc2::profiler
