#include "backends/cuda/transport.hpp"

#include <utility>

#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::OpKind;

DirectCollective direct_collective(OpKind kind) {
  switch (kind) {
    case OpKind::MatmulAllReduce: return DirectCollective::AllReduce;
    case OpKind::MatmulReduceScatter: return DirectCollective::ReduceScatter;
    case OpKind::AllGatherMatmul: return DirectCollective::AllGather;
    case OpKind::MatmulAllToAll:
    case OpKind::AllToAllMatmul:
    case OpKind::EmbeddingAllToAll: break; // check_operator() refuses them
  }
  return DirectCollective::AllReduce;
}

/// What a gather that only reads from peers leaves out.
void copy_own(int rank, const BlockExchange& block, planner::DType dtype, cudaStream_t stream) {
  if (!block.copies_own) return;
  const auto index = static_cast<std::size_t>(rank);
  const auto piece_bytes = static_cast<std::size_t>(block.element_count * planner::size_bytes(dtype));
  MC2_CUDA(cudaMemcpyAsync(block.receive[index] + index * piece_bytes, block.send[index], piece_bytes,
                           cudaMemcpyDeviceToDevice, stream));
}

class DirectTransport final : public Transport {
 public:
  DirectTransport(const DirectSettings& settings, bool mails_small_pieces, std::vector<SignalMemory> signals)
      : settings_(settings), mails_small_pieces_(mails_small_pieces), signals_(std::move(signals)) {}

  void enqueue(int rank, const BlockExchange& block, cudaStream_t stream) const override {
    if (settings_.collective == DirectCollective::AllGather) copy_own(rank, block, settings_.dtype, stream);
    DirectSettings settings = settings_;
    if (mails_small_pieces_ && block.element_count * planner::size_bytes(settings_.dtype) <= kMaxLowLatencyBytes)
      settings.collective = DirectCollective::AllReduceLowLatency;
    enqueue_direct(settings, block, signals_[static_cast<std::size_t>(rank)], stream);
  }

 private:
  DirectSettings settings_;
  bool mails_small_pieces_;
  std::vector<SignalMemory> signals_; ///< by rank
};

class CopyTransport final : public Transport {
 public:
  CopyTransport(planner::DType dtype, std::vector<SignalMemory> signals)
      : dtype_(dtype), signals_(std::move(signals)) {}

  void enqueue(int rank, const BlockExchange& block, cudaStream_t stream) const override {
    const SignalMemory& signals = signals_[static_cast<std::size_t>(rank)];
    if (block.is_first) enqueue_meeting(signals, stream);
    copy_own(rank, block, dtype_, stream);
    const auto piece_bytes = static_cast<std::size_t>(block.element_count * planner::size_bytes(dtype_));
    std::byte* const own = block.receive[static_cast<std::size_t>(rank)];
    for (int distance = 1; distance < signals.world_size; ++distance) {
      const auto peer = static_cast<std::size_t>((rank + distance) % signals.world_size);
      MC2_CUDA(cudaMemcpyAsync(own + peer * piece_bytes, block.send[peer], piece_bytes, cudaMemcpyDefault, stream));
    }
    if (block.is_last) enqueue_meeting(signals, stream);
  }

 private:
  planner::DType dtype_;
  std::vector<SignalMemory> signals_; ///< by rank
};

ncclDataType_t nccl_type(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::F32: return ncclFloat32;
    case planner::DType::F16: return ncclFloat16;
    case planner::DType::Bf16: return ncclBfloat16;
  }
  return ncclFloat32;
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(const planner::OpSpec& op, const std::vector<NcclCommunicator>& communicators)
      : kind_(op.kind), type_(nccl_type(op.dtype)), communicators_(communicators) {}

  void enqueue(int rank, const BlockExchange& block, cudaStream_t stream) const override {
    const auto index = static_cast<std::size_t>(rank);
    const ncclComm_t communicator = communicators_[index].get();
    const auto count = static_cast<std::size_t>(block.element_count);
    const std::byte* send = block.send[index];
    std::byte* receive = block.receive[index];
    switch (kind_) {
      case OpKind::MatmulAllReduce:
        return check(ncclAllReduce(send, receive, count, type_, ncclSum, communicator, stream), "ncclAllReduce", rank);
      case OpKind::MatmulReduceScatter:
        return check(ncclReduceScatter(send, receive, count, type_, ncclSum, communicator, stream),
                     "ncclReduceScatter", rank);
      case OpKind::AllGatherMatmul:
        return check(ncclAllGather(send, receive, count, type_, communicator, stream), "ncclAllGather", rank);
      case OpKind::MatmulAllToAll:
      case OpKind::AllToAllMatmul:
      case OpKind::EmbeddingAllToAll: break; // check_operator() refuses them
    }
  }

 private:
  OpKind kind_;
  ncclDataType_t type_;
  const std::vector<NcclCommunicator>& communicators_; ///< by rank
};

} // namespace

std::unique_ptr<Transport> make_direct_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                 std::vector<SignalMemory> signals) {
  const DirectSettings settings{.collective = direct_collective(op.kind),
                                .dtype = op.dtype,
                                .cta_count = variant.cta_count};
  return std::make_unique<DirectTransport>(settings, variant.is_low_latency, std::move(signals));
}

std::unique_ptr<Transport> make_nccl_transport(const planner::OpSpec& op,
                                               const std::vector<NcclCommunicator>& communicators) {
  return std::make_unique<NcclTransport>(op, communicators);
}

std::unique_ptr<Transport> make_copy_transport(const planner::OpSpec& op, std::vector<SignalMemory> signals) {
  MC2_CHECK(op.kind == OpKind::AllGatherMatmul, "the copy engine only gathers");
  return std::make_unique<CopyTransport>(op.dtype, std::move(signals));
}

} // namespace mc2::executor::cuda
