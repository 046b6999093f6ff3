#include "backends/cuda/plan_graphs.hpp"

#include <cerrno>
#include <vector>

#include "backends/cuda/lane_streams.hpp"
#include "mc2/planner/error.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

int count_kernels(cudaGraph_t graph) {
  std::size_t count = 0;
  MC2_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  MC2_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  int kernel_count = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    const cudaError_t code = cudaGraphNodeGetType(node, &type);
    if (code != cudaSuccess) (void)cudaGetLastError(); // batches of memory operations have no type in the runtime
    if (code == cudaSuccess && type == cudaGraphNodeTypeKernel) ++kernel_count;
  }
  return kernel_count;
}

} // namespace

GraphExec capture_run(BoundPlan& plan, const RankRun& run) {
  const int rank = run.rank;
  const cudaStream_t stream = plan.device(rank).compute.get();
  StreamCapture capture(stream);
  enqueue_run(plan, run);
  GraphExec executable = instantiate(capture.end(), rank);
  MC2_CUDA(cudaGraphUpload(executable.get(), stream));
  return executable;
}

cudaGraphExec_t graph_of_moved_matrices(BoundPlan& plan, int rank) {
  constexpr int kUsesBeforeCapture = 2;
  constexpr std::size_t kMostMatrices = 256; // for programs that never reuse matrices: further matrices get no graph
  RankState& state = plan.state_of(rank);
  if (plan.transport->uses_nccl() || plan.list.op.tables) return nullptr; // bags differ in length from run to run
  const MatrixAddresses addresses = addresses_of(state.buffers);
  if (state.moved_graphs.size() >= kMostMatrices && !state.moved_graphs.contains(addresses)) return nullptr;
  MovedGraph& moved = state.moved_graphs[addresses];
  if (!moved.graph && ++moved.use_count > kUsesBeforeCapture) moved.graph = capture_run(plan, enqueued_run(plan, rank));
  return moved.graph.get();
}

void check_takes_no_sm(const BoundPlan& plan, int rank) {
  const cudaStream_t stream = plan.device(rank).communication.get();
  StreamCapture capture(stream);
  BlockExchange block = plan.exchange_of(0, RunMode::CommunicationOnly);
  block.meets_after = false;
  plan.transport->enqueue(rank, block, 0, stream);
  const cudaGraph_t graph = capture.end();
  const int kernel_count = count_kernels(graph);
  log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  if (kernel_count == 0) return;
  throw SystemError(
      "nccl", ENOTSUP,
      rank_text(rank) + ": asked for copy engines, NCCL took " + std::to_string(kernel_count) + " kernels");
}

} // namespace mc2::executor::cuda
