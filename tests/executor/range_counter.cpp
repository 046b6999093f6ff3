// A profiling tool like nsys, which counts NVTX ranges by name. NVTX loads the library that NVTX_INJECTION64_PATH
// names.

#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<int> lane_count{0}, block_count{0}, open_count{0};

int NVTX_API push(const nvtxEventAttributes_t* attributes) {
  const char* const name = attributes->message.ascii;
  if (std::strstr(name, "lane") != nullptr) ++lane_count;
  if (std::strstr(name, "block") != nullptr) ++block_count;
  return open_count++;
}

int NVTX_API pop() { return --open_count; }

template <typename Function>
NvtxFunctionPointer as_pointer(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

} // namespace

#define MC2_VISIBLE __attribute__((visibility("default")))

extern "C" {

MC2_VISIBLE int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE_RangePushEx] = as_pointer(&push);
  *table[NVTX_CBID_CORE_RangePop] = as_pointer(&pop);
  return 1;
}

MC2_VISIBLE int mc2_lane_ranges(void) { return lane_count; }
MC2_VISIBLE int mc2_block_ranges(void) { return block_count; }
MC2_VISIBLE int mc2_open_ranges(void) { return open_count; }
}
