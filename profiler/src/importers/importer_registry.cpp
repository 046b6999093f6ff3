#include <array>

#include "formats.hpp"

namespace mc2::profiler {
namespace {

// In order of detection: what can be told from its first bytes comes before what needs a look at its lines.
constexpr std::array kImporters{
    Importer{"msprof_db", "msprof_*.db, table COMMUNICATION_OP", detect_msprof_db, read_msprof_db},
    Importer{"msprof_trace", "msprof_*.json, blocks of fused operators", detect_msprof_trace, read_msprof_trace},
    Importer{"pytorch_trace", "PyTorch profiler, export_chrome_trace()", detect_pytorch_trace, read_pytorch_trace},
    Importer{"nccl_inspector", "NCCL Inspector, JSON lines", detect_nccl_inspector, read_nccl_inspector},
    Importer{"torch_npu", "torch_npu communication.json, cluster_communication.json", detect_torch_npu, read_torch_npu},
    Importer{"nccl_tests_json", "nccl-tests -J", detect_nccl_tests_json, read_nccl_tests_json},
    Importer{"nsys", "Nsight Systems, nsys stats --report cuda_gpu_trace:nvtx-name", detect_nsys, read_nsys},
    Importer{"cuts", "CSV of measured cuts: blocks,fused_us[,serial_us,...]", detect_cuts, read_cuts},
    Importer{"msprof_statistic", "msprof communication_statistic*.csv, op_statistic*.csv", detect_msprof_statistic,
             read_msprof_statistic},
    Importer{"msprof", "msprof op_summary_*.csv, kernel_details.csv", detect_msprof_kernels, read_msprof_kernels},
    Importer{"hccl_test", "hccl_test", detect_hccl_test, read_hccl_test},
    Importer{"imb", "Intel MPI Benchmarks, parts MPI-1 and NBC", detect_imb, read_imb},
    Importer{"osu", "OSU micro-benchmarks 5 to 7", detect_osu, read_osu},
    Importer{"nccl_tests", "nccl-tests and rccl-tests", detect_nccl_tests, read_nccl_tests}};

} // namespace

std::span<const Importer> importer_registry() noexcept { return kImporters; }

} // namespace mc2::profiler
