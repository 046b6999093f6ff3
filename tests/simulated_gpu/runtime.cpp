// The part of the CUDA runtime that mc2 and its tests call.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "simulated_gpu/device.hpp"
#include "simulated_gpu/kernels.hpp"
#include "simulated_gpu/stream.hpp"

using namespace mc2::simulated;

namespace {

constexpr int kVersion = CUDART_VERSION;
constexpr int kSmCount = 132; ///< as an H100 has

/// The data that another process needs to map an allocation.
struct IpcHandle {
  int process;
  int file;
  std::size_t bytes;
};
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local CallConfiguration pushed;

/// Refuses to wait for a stream that is being captured. As in CUDA, the attempt invalidates the capture.
cudaError_t refuse_capture(const Stream& stream) {
  const std::lock_guard lock(capture_mutex());
  if (!stream.capture) return cudaSuccess;
  stream.capture->is_invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t launch(const void* function, void** arguments, cudaStream_t stream) {
  // A kernel runs on the current device, which must be its stream's.
  if (stream_of(stream)->device != current_device()) return done(cudaErrorInvalidResourceHandle);
  auto work = kernel_work(function, arguments);
  if (!work) return done(cudaErrorInvalidDeviceFunction);
  return done(submit(stream, cudaGraphNodeTypeKernel, std::move(*work)));
}

cudaError_t copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                 std::size_t height, cudaStream_t stream) {
  return done(submit(stream, cudaGraphNodeTypeMemcpy, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch,
                  width);
  }));
}

cudaError_t make_stream(cudaStream_t* stream, unsigned flags) {
  *stream = reinterpret_cast<cudaStream_t>(
      new std::shared_ptr<Stream>(Stream::open(current_device(), flags != cudaStreamNonBlocking)));
  return cudaSuccess;
}

/// Submits the event's record as a node, which takes the time at each run of the graph.
cudaError_t record_in_graph(const std::shared_ptr<Event>& event, cudaStream_t stream) {
  return submit(stream, cudaGraphNodeTypeEventRecord, [event] {
    auto record = std::make_shared<Record>();
    record->complete();
    const std::lock_guard lock(capture_mutex());
    event->last = std::move(record);
    event->capture.reset();
  });
}

} // namespace

#define MC2_MAY_FAIL() \
  if (const cudaError_t fault = injected(__func__); fault != cudaSuccess) return done(fault)

extern "C" {

// Devices.

cudaError_t cudaGetDeviceCount(int* count) {
  MC2_MAY_FAIL();
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return done(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  drain_device(current_device());
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  MC2_MAY_FAIL();
  *can = device == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  MC2_MAY_FAIL();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int, int) {
  *value = attribute == cudaDevP2PAttrPerformanceRank ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = kSmCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrClusterLaunch: *value = 1; break;
    default: return done(cudaErrorNotSupported);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "simulated GPU");
  properties->major = 9;
  properties->multiProcessorCount = kSmCount;
  properties->totalGlobalMem = device_bytes();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

// Errors.

cudaError_t cudaGetLastError() { return take_last_error(); }

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    default: return "an error";
  }
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(code);
}

// Memory.

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  MC2_MAY_FAIL();
  return done(allocate(bytes, Source::Malloc, memory));
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) {
  MC2_MAY_FAIL();
  return done(allocate(bytes, Source::Pool, memory));
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (const auto found = allocation_of(memory)) drain_device(found->device);
  return done(release(memory));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = free_bytes(current_device());
  *total = device_bytes();
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->device = -1;
  const auto found = allocation_of(address);
  if (!found) return cudaSuccess; // host memory
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = found->device;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  MC2_MAY_FAIL();
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory == nullptr ? done(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void*, std::size_t, unsigned) {
  MC2_MAY_FAIL();
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(to, bytes, from, bytes, bytes, 1, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return done(cudaErrorInvalidPitchValue);
  return copy(to, to_pitch, from, from_pitch, width, height, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t code = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  stream_of(nullptr)->drain();
  return code;
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return done(submit(nullptr, cudaGraphNodeTypeMemset, [=] { std::memset(to, value, bytes); }));
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const auto found = allocation_of(address);
  if (!found || found->file < 0) return done(cudaErrorInvalidValue);
  const IpcHandle offer{getpid(), found->file, found->bytes};
  *handle = {};
  std::memcpy(handle, &offer, sizeof offer);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  MC2_MAY_FAIL();
  IpcHandle offer{};
  std::memcpy(&offer, &handle, sizeof offer);
  return done(map_file(offer.process, offer.file, offer.bytes, memory));
}

cudaError_t cudaIpcCloseMemHandle(void* memory) { return done(release(memory)); }

// Streams and events.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  MC2_MAY_FAIL();
  return make_stream(stream, flags);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  MC2_MAY_FAIL();
  return make_stream(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  auto* const handle = reinterpret_cast<std::shared_ptr<Stream>*>(stream);
  (*handle)->close();
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const auto found = stream_of(stream);
  const std::lock_guard lock(capture_mutex());
  if (found->capture) return done(cudaErrorStreamCaptureUnsupported);
  *device = found->device;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const auto found = stream_of(stream);
  if (const cudaError_t code = refuse_capture(*found); code != cudaSuccess) return done(code);
  return found->is_idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const auto found = stream_of(stream);
  if (const cudaError_t code = refuse_capture(*found); code != cudaSuccess) return done(code);
  found->drain();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return done(submit(stream, cudaGraphNodeTypeHost, [=] { function(argument); }));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  MC2_MAY_FAIL();
  *event = reinterpret_cast<cudaEvent_t>(new std::shared_ptr<Event>(
      std::make_shared<Event>(Event{.device = current_device(), .last = {}, .capture = {}, .tips = {}})));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<std::shared_ptr<Event>*>(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  MC2_MAY_FAIL();
  const auto event = event_of(handle);
  const auto stream = stream_of(stream_handle);
  if (event->device != stream->device) return done(cudaErrorInvalidResourceHandle);
  if (flags == cudaEventRecordExternal) return done(record_in_graph(event, stream_handle));
  const auto record = std::make_shared<Record>();
  {
    const std::lock_guard lock(capture_mutex());
    event->capture = stream->capture;
    if (stream->capture) {
      event->tips = stream->capture->members.at(stream.get()).tips;
      return cudaSuccess;
    }
    event->last = record;
  }
  return done(submit(stream_handle, cudaGraphNodeTypeEventRecord, [record] { record->complete(); }));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned) {
  const auto event = event_of(handle);
  const auto stream = stream_of(stream_handle);
  std::shared_ptr<Record> record;
  {
    const std::lock_guard lock(capture_mutex());
    if (event->capture) { // the event was recorded during a capture
      if (!event->capture->is_active) return done(cudaErrorCapturedEvent);
      if (stream->capture && stream->capture != event->capture) return done(cudaErrorStreamCaptureMerge);
      stream->capture = event->capture;
      stream->capture->join(*stream, event->tips);
      return cudaSuccess;
    }
    record = event->last;
    if (stream->capture && record) {
      stream->capture->is_invalid = true;
      return done(cudaErrorStreamCaptureIsolation);
    }
  }
  return record ? done(submit(stream_handle, cudaGraphNodeTypeWaitEvent, [record] { record->wait(); })) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(capture_mutex());
  const Event& found = *event_of(event);
  if (found.capture) return done(cudaErrorCapturedEvent);
  return !found.last || found.last->is_complete() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const std::lock_guard lock(capture_mutex());
  const auto first = event_of(start)->last, last = event_of(end)->last;
  if (!first || !last) return done(cudaErrorInvalidResourceHandle);
  if (!first->is_complete() || !last->is_complete()) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
  return cudaSuccess;
}

// Graphs.

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const auto stream = stream_of(handle);
  const std::lock_guard lock(capture_mutex());
  *status = !stream->capture              ? cudaStreamCaptureStatusNone
            : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  MC2_MAY_FAIL();
  if (handle == nullptr || handle == cudaStreamLegacy) return done(cudaErrorStreamCaptureUnsupported);
  const auto stream = stream_of(handle);
  const std::lock_guard lock(capture_mutex());
  if (stream->capture) return done(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream.get();
  stream->capture->join(*stream, {});
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const auto stream = stream_of(handle);
  const std::lock_guard lock(capture_mutex());
  const auto capture = stream->capture;
  *graph = nullptr;
  if (!capture) return done(cudaErrorIllegalState);
  if (capture->origin != stream.get()) {
    capture->is_invalid = true;
    return done(cudaErrorStreamCaptureUnmatched);
  }
  const bool is_joined = capture->is_joined();
  capture->is_active = false;
  for (auto& [member, place] : capture->members) member->capture.reset();
  if (capture->is_invalid) return done(cudaErrorStreamCaptureInvalidated);
  if (!is_joined) return done(cudaErrorStreamCaptureUnjoined);
  capture->graph.lane_count = capture->members.size();
  *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(capture->graph)));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  auto& graph = *reinterpret_cast<Graph*>(handle);
  for (std::size_t i = 0; nodes != nullptr && i < *count && i < graph.nodes.size(); ++i)
    nodes[i] = reinterpret_cast<cudaGraphNode_t>(&graph.nodes[i]);
  *count = graph.nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  MC2_MAY_FAIL();
  *executable = reinterpret_cast<cudaGraphExec_t>(
      new std::shared_ptr<Executable>(std::make_shared<Executable>(*reinterpret_cast<Graph*>(graph))));
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  MC2_MAY_FAIL();
  const auto executable = *reinterpret_cast<std::shared_ptr<Executable>*>(handle);
  return done(submit(stream, cudaGraphNodeTypeGraph, [executable] { executable->run(); }));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  delete reinterpret_cast<std::shared_ptr<Executable>*>(handle);
  return cudaSuccess;
}

// Kernels.

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void** arguments, std::size_t, cudaStream_t stream) {
  MC2_MAY_FAIL();
  return launch(function, arguments, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  MC2_MAY_FAIL();
  return launch(function, arguments, config->stream);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, std::size_t, cudaStream_t stream) {
  return launch(kernel, arguments, stream);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  pushed = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

void** __cudaRegisterFatBinary(void*) {
  static void* nothing = nullptr;
  return &nothing;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {
} // CUB's headers define variables

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  register_kernel(function, name);
}

} // extern "C"

// Functions of the driver, which mc2 looks up by name.
namespace {

CUresult address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const auto found = allocation_of(reinterpret_cast<const void*>(address));
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  if (base != nullptr) *base = reinterpret_cast<CUdeviceptr>(found->base);
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

/// The handle of a device's pool is the device's number plus 1; 0 means no pool.
CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  const auto found = allocation_of(reinterpret_cast<const void*>(address));
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] != CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<std::intptr_t*>(data[i]) = found && found->is_pooled ? found->device + 1 : 0;
  }
  return CUDA_SUCCESS;
}

CUresult pool_access(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  const bool is_own = location->id + 1 == reinterpret_cast<std::intptr_t>(pool);
  *flags = is_own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

/// Every device may access mapped memory, as with ncclMemAlloc().
CUresult mapping_access(unsigned long long* flags, const CUmemLocation*, CUdeviceptr) {
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult retain_allocation(CUmemGenericAllocationHandle* handle, void* address) {
  const auto found = allocation_of(address);
  if (!found || found->file >= 0 || found->is_pooled)
    return CUDA_ERROR_INVALID_VALUE; // memory of cudaMalloc or a pool has no such handle
  *handle = 1;
  return CUDA_SUCCESS;
}

CUresult release_allocation(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }

CUresult error_name(CUresult, const char** name) {
  *name = "an error of the driver";
  return CUDA_SUCCESS;
}

CUresult encode_tensor(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                       const cuuint64_t* pitches, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                       CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0 || pitches[0] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  const Tensor tensor{static_cast<std::byte*>(address), static_cast<std::int64_t>(sizes[0]),
                      static_cast<std::int64_t>(sizes[1]), static_cast<std::int64_t>(rank > 2 ? sizes[2] : 1)};
  static_assert(sizeof tensor <= sizeof *map);
  *map = {};
  std::memcpy(map, &tensor, sizeof tensor);
  return CUDA_SUCCESS;
}

} // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult*) {
  static const std::map<std::string, void*> kFunctions{
      {"cuMemGetAddressRange", reinterpret_cast<void*>(&address_range)},
      {"cuMemRetainAllocationHandle", reinterpret_cast<void*>(&retain_allocation)},
      {"cuPointerGetAttributes", reinterpret_cast<void*>(&pointer_attributes)},
      {"cuMemPoolGetAccess", reinterpret_cast<void*>(&pool_access)},
      {"cuMemGetAccess", reinterpret_cast<void*>(&mapping_access)},
      {"cuMemRelease", reinterpret_cast<void*>(&release_allocation)},
      {"cuGetErrorName", reinterpret_cast<void*>(&error_name)},
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(&encode_tensor)}};
  const auto found = kFunctions.find(name);
  if (found == kFunctions.end()) return done(cudaErrorSymbolNotFound);
  *function = found->second;
  return cudaSuccess;
}
