#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/cuda_communicator.hpp"
#include "backends/cuda/gemm.hpp"
#include "backends/cuda/transport.hpp"

namespace mc2::executor::cuda {

/// A stage list bound to device buffers: each rank's whole pipeline is one CUDA graph per run mode, captured when the
/// mode first runs (Fused while preparing) and replayed after.
///
/// The lanes meet in the exchange memory: the partial product [m, n] of kinds that multiply first, the gathered A [m, k]
/// of kinds that gather first. Blocks of a kind with row shards lie in it one after the other, each with its rows of
/// every shard side by side, so that a block's collective is contiguous.
class CudaPrepared final : public Prepared {
 public:
  /// The arguments have been checked; `communicator` and the buffers outlive *this. Throws SystemError.
  CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
               std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
               const PrepareOptions& options);
  ~CudaPrepared() override;

  const RunRecord& run(RunMode mode) override;

 private:
  struct StageEvents {
    Event start, end;
  };

  /// Everything of one rank; touched by its thread alone once it is built.
  struct RankState {
    RankBuffers buffers;
    std::unique_ptr<DeviceMemory> exchange;
    std::unique_ptr<DeviceMemory> spare; ///< used by the communication lane of RunMode::Independent
    std::vector<Gemm> local_gemms;
    std::vector<std::vector<Gemm>> gemms; ///< by stage
    std::array<GraphExec, 4> graphs;      ///< by RunMode
    Event begin, finish, fork;
    std::vector<Event> ready;             ///< by stage: the first lane is done with it
    StageEvents local;
    std::vector<StageEvents> compute, communication;
  };

  void build(int rank);
  void build_gemms(int rank);
  [[nodiscard]] Gemm make_gemm(int rank, GemmShape shape, std::int64_t exchange_row, std::int64_t c_row);
  [[nodiscard]] BlockExchange exchange_of(std::size_t stage, bool uses_spare) const;
  void capture(int rank, RunMode mode);
  void enqueue(int rank, RunMode mode);
  void enqueue_compute(int rank, RunMode mode, std::size_t stage);
  void enqueue_communication(int rank, RunMode mode, std::size_t stage);
  void read_times(int rank, RunMode mode);
  void finish_record();

  CudaCommunicator& communicator_;
  StageList list_;
  CudaVariant variant_;
  std::unique_ptr<Transport> transport_;
  OperandShapes shapes_;
  bool gathers_first_;
  std::vector<RankState> ranks_;
  RunRecord record_;
};

} // namespace mc2::executor::cuda
