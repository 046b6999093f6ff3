#include "backends/cuda/transports/transport.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/cuda/transports/row_runs.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Collective;

DirectCollective direct_collective(const planner::OpSpec& op) {
  switch (planner::collective_of(op.kind)) {
    case Collective::AllReduce: return DirectCollective::AllReduce;
    case Collective::ReduceScatter: return DirectCollective::ReduceScatter;
    case Collective::AllGather:
    case Collective::AllToAll: break;
  }
  return DirectCollective::Gather;
}

/// The place of a peer's piece in a rank's staging memory: the next rank's is first, then that of the next but one, ...
int stage_place(int from, int to, int world_size) { return (from - to - 1 + world_size) % world_size; }

/// The address of a row; null for a null matrix, i.e. one of another process or of a rank without rows.
template <typename Byte>
Byte* at_row(Byte* matrix, std::int64_t offset) {
  return matrix == nullptr ? nullptr : matrix + offset;
}

/// Where pieces lie and go, in a block of elements of one size.
class Pieces {
 public:
  Pieces(const BlockExchange& block, planner::DType dtype)
      : block_(&block), element_bytes_(planner::size_bytes(dtype)) {}

  /// Bytes of a piece, or of a row if the block has row_runs.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(block_->element_count * element_bytes_); }
  /// Calls `work(source, landing, element count)` for each part of a piece that is dense on both sides, in the same
  /// order on both ranks.
  template <typename Work>
  void for_each_part(int from, int to, const Work& work) const {
    if (block_->row_runs == nullptr) return work(source(from, to), landing(from, to), block_->element_count);
    const auto row_bytes = static_cast<std::int64_t>(bytes());
    for (const RowRun& run : block_->row_runs->exchanged(from, to, {block_->first_row, block_->row_count})) {
      work(at_row(block_->send[static_cast<std::size_t>(from)], run.from_row * row_bytes),
           at_row(block_->receive[static_cast<std::size_t>(to)], run.to_row * row_bytes),
           run.row_count * block_->element_count);
    }
  }
  void copy_parts(int from, int to, cudaStream_t stream) const {
    for_each_part(from, to, [&](const std::byte* source, std::byte* landing, std::int64_t element_count) {
      const auto size = static_cast<std::size_t>(element_count * element_bytes_);
      MC2_CUDA(cudaMemcpyAsync(landing, source, size, cudaMemcpyDefault, stream));
    });
  }
  [[nodiscard]] const std::byte* source(int from, int to) const {
    return block_->send[static_cast<std::size_t>(from)] + to * block_->send_stride * element_bytes_;
  }
  [[nodiscard]] std::byte* landing(int from, int to) const {
    return block_->receive[static_cast<std::size_t>(to)] + from * block_->receive_stride * element_bytes_;
  }
  [[nodiscard]] std::byte* stage(int from, int to, int world_size) const {
    return block_->staging[static_cast<std::size_t>(to)] +
           stage_place(from, to, world_size) * block_->element_count * element_bytes_;
  }

  void copy(std::byte* to, const std::byte* from, cudaStream_t stream) const {
    MC2_CUDA(cudaMemcpyAsync(to, from, bytes(), cudaMemcpyDefault, stream));
  }
  /// Copies a piece to its place at the receiver, row by row if it does not stay dense there.
  void put_down(int sender, int receiver, const std::byte* piece, cudaStream_t stream) const {
    if (block_->row_runs != nullptr) return copy_parts(sender, receiver, stream);
    std::byte* to = landing(sender, receiver);
    if (block_->row_elements == 0) return copy(to, piece, stream);
    const auto row_bytes = static_cast<std::size_t>(block_->row_elements * element_bytes_);
    const auto pitch_bytes = static_cast<std::size_t>(block_->receive_pitch * element_bytes_);
    MC2_CUDA(cudaMemcpy2DAsync(to, pitch_bytes, piece, row_bytes, row_bytes, bytes() / row_bytes, cudaMemcpyDefault,
                               stream));
  }
  void copy_own(int rank, cudaStream_t stream) const {
    if (block_->copies_own) put_down(rank, rank, source(rank, rank), stream);
  }

 private:
  const BlockExchange* block_;
  std::int64_t element_bytes_;
};

class DirectTransport final : public Transport {
 public:
  DirectTransport(const DirectSettings& settings, bool mails_small_pieces, std::vector<SignalMemory> signals,
                  int sm_count)
      : settings_(settings),
        mails_small_pieces_(mails_small_pieces),
        signals_(std::move(signals)),
        sm_count_(sm_count) {}

  [[nodiscard]] bool writes_to_peers() const noexcept override {
    return settings_.collective == DirectCollective::AllReduce;
  }

  void enqueue(int rank, const BlockExchange& block, int /*slice*/, cudaStream_t stream) const override {
    Pieces(block, settings_.dtype).copy_own(rank, stream);
    DirectSettings settings = settings_;
    if (is_mailed(block)) settings.collective = DirectCollective::AllReduceLowLatency;
    enqueue_direct(settings, block, signals_[static_cast<std::size_t>(rank)], stream);
  }

  [[nodiscard]] bool finishes(int rank, const BlockExchange& block, const RowEpilogue& epilogue) const override {
    if (settings_.collective != DirectCollective::AllReduce) return false;
    if (!is_mailed(block)) return can_finish_direct(block, epilogue, static_cast<int>(signals_.size()));
    return !block.copies_own && can_finish_mail(block, epilogue, rank);
  }
  void enqueue_and_finish(int rank, const BlockExchange& block, const RowEpilogue& epilogue,
                          cudaStream_t stream) const override {
    const SignalMemory& signals = signals_[static_cast<std::size_t>(rank)];
    if (is_mailed(block)) return enqueue_mail_and_finish(block, epilogue, signals, stream);
    enqueue_direct_and_finish(block, epilogue, sm_count_, signals, stream);
  }

 private:
  [[nodiscard]] bool is_mailed(const BlockExchange& block) const noexcept {
    return mails_small_pieces_ && block.element_count * planner::size_bytes(settings_.dtype) <= kMaxLowLatencyBytes;
  }

  DirectSettings settings_;
  bool mails_small_pieces_;
  std::vector<SignalMemory> signals_; ///< by rank
  int sm_count_;
};

class PersistentTransport final : public Transport {
 public:
  PersistentTransport(const DirectSettings& settings, std::vector<SignalMemory> signals, int sm_count)
      : settings_(settings),
        signals_(std::move(signals)),
        last_cta_count_(std::max(settings.cta_count, std::min(kLastCtas, sm_count))) {}

  [[nodiscard]] bool writes_to_peers() const noexcept override {
    return settings_.collective == DirectCollective::AllReduce;
  }

  void enqueue(int rank, const BlockExchange& block, int /*slice*/, cudaStream_t stream) const override {
    DirectSettings settings = settings_;
    if (block.is_last) settings.cta_count = last_cta_count_;
    enqueue_direct(settings, block, signals_[static_cast<std::size_t>(rank)], stream);
  }

  [[nodiscard]] std::size_t span_length(const std::vector<BlockExchange>& blocks) const override {
    const auto world_size = static_cast<int>(signals_.size());
    if (blocks.size() < 2 || !can_span(blocks, settings_.dtype, world_size)) return 0;
    const std::size_t count = settings_.cta_count < kEnoughCtas ? blocks.size() - 1 : blocks.size();
    return std::min<std::size_t>(count, kMaxSpanBlocks);
  }

  void enqueue_span(int rank, const std::vector<BlockExchange>& blocks, bool waits,
                    cudaStream_t stream) const override {
    MC2_CHECK(blocks.size() <= kMaxSpanBlocks, "span_length() blocks at most");
    cuda::enqueue_span(settings_, blocks, waits, signals_[static_cast<std::size_t>(rank)], stream);
  }

  void announce(int rank, cudaStream_t stream) const override {
    enqueue_announcement(signals_[static_cast<std::size_t>(rank)], stream);
  }

 private:
  static constexpr int kLastCtas = 32;
  static constexpr int kEnoughCtas = 8; ///< enough to fill the links of a Hopper GPU

  DirectSettings settings_;
  std::vector<SignalMemory> signals_; ///< by rank
  int last_cta_count_;                ///< not above the rank's SMs, because peers' thread blocks wait for all of them
};

/// The rank of a slice, if there is one slice per rank: slice 0 is the next rank's.
RankRange one_rank(int rank, int slice, int world_size) {
  const int other = (rank + 1 + slice) % world_size;
  return {other, other + 1};
}

class PullTransport final : public Transport {
 public:
  using Slicing = CudaVariant::Slicing;

  PullTransport(planner::DType dtype, Slicing slicing, std::vector<SignalMemory> signals)
      : dtype_(dtype), slicing_(slicing), world_size_(signals.front().world_size), signals_(std::move(signals)) {}

  [[nodiscard]] int slice_count() const noexcept override {
    switch (slicing_) {
      case Slicing::Whole: return 1;
      case Slicing::ByRank: return world_size_ - 1;
      case Slicing::Doubling: return std::countr_zero(static_cast<unsigned>(world_size_));
    }
    return 1;
  }
  [[nodiscard]] RankRange slice_ranks(int rank, int slice) const override {
    if (slicing_ != Slicing::Doubling) return one_rank(rank, slice, world_size_);
    const int count = 1 << slice;
    const int first = (rank ^ count) & ~(count - 1);
    return {first, first + count};
  }

  void enqueue(int rank, const BlockExchange& block, int slice, cudaStream_t stream) const override {
    const Pieces pieces(block, dtype_);
    if (slice == 0) pieces.copy_own(rank, stream);
    for (int step = first_step(slice); step < first_step(slice + 1); ++step) {
      const int peer = slicing_ == Slicing::Doubling ? rank ^ step : (rank + step) % world_size_;
      pieces.copy_parts(peer, rank, stream);
    }
    if (block.meets_after && slice + 1 == slice_count())
      enqueue_meeting(signals_[static_cast<std::size_t>(rank)], stream);
  }

 private:
  /// The first step of a slice. Steps 1, 2, ... go through the peers.
  [[nodiscard]] int first_step(int slice) const noexcept {
    if (slicing_ == Slicing::Doubling) return 1 << slice;
    return slice == slice_count() ? world_size_ : slice + 1;
  }

  planner::DType dtype_;
  Slicing slicing_;
  int world_size_;
  std::vector<SignalMemory> signals_; ///< by rank
};

class PushTransport final : public Transport {
 public:
  PushTransport(planner::DType dtype, bool sums, std::vector<SignalMemory> signals, int sm_count)
      : dtype_(dtype), sums_(sums), signals_(std::move(signals)), cta_count_(2 * sm_count) {}

  [[nodiscard]] int slice_count() const noexcept override { return signals_.front().world_size; }
  [[nodiscard]] RankRange slice_ranks(int rank, int slice) const override {
    return one_rank(rank, slice, slice_count());
  }
  [[nodiscard]] bool writes_to_peers() const noexcept override { return !sums_; }

  void enqueue(int rank, const BlockExchange& block, int slice, cudaStream_t stream) const override {
    const SignalMemory& signals = signals_[static_cast<std::size_t>(rank)];
    const Pieces pieces(block, dtype_);
    const int peer = slice_ranks(rank, slice).first;
    if (peer != rank) {
      const std::byte* from = pieces.source(rank, peer);
      if (!sums_) return pieces.put_down(rank, peer, from, stream);
      return pieces.copy(pieces.stage(rank, peer, signals.world_size), from, stream);
    }
    pieces.copy_own(rank, stream);
    if (block.leaves_sum) return;
    if (sums_ || block.meets_after) enqueue_meeting(signals, stream); // all pieces have arrived
    if (!sums_) return;
    LocalSum local{.piece_count = signals.world_size,
                   .sum = block.receive[static_cast<std::size_t>(rank)],
                   .element_count = block.element_count,
                   .dtype = dtype_};
    for (int from = 0; from < signals.world_size; ++from) {
      local.pieces[static_cast<std::size_t>(from)] =
          from == rank ? pieces.source(rank, rank) : pieces.stage(from, rank, signals.world_size);
    }
    enqueue_sum(local, cta_count_, stream);
  }

 private:
  planner::DType dtype_;
  bool sums_;
  std::vector<SignalMemory> signals_; ///< by rank
  int cta_count_;                     ///< thread blocks of a sum; these suffice to use all memory bandwidth
};

/// Each rank sums its share of a block and pushes the sum to all ranks.
class PushAllReduceTransport final : public Transport {
 public:
  PushAllReduceTransport(planner::DType dtype, std::vector<SignalMemory> signals, int sm_count)
      : dtype_(dtype), signals_(std::move(signals)), cta_count_(2 * sm_count) {}

  [[nodiscard]] bool writes_to_peers() const noexcept override { return true; }

  void enqueue(int rank, const BlockExchange& block, int /*slice*/, cudaStream_t stream) const override {
    const SignalMemory& signals = signals_[static_cast<std::size_t>(rank)];
    const Share own = share_of(rank, block);
    const auto for_each_peer = [&](const auto& work) {
      for (int distance = 1; distance < signals.world_size; ++distance) work((rank + distance) % signals.world_size);
    };
    for_each_peer([&](int peer) {
      const Share share = share_of(peer, block);
      copy(stage(rank, peer, block), block.send[static_cast<std::size_t>(rank)] + share.offset, share.bytes, stream);
    });
    std::byte* const sum = block.receive[static_cast<std::size_t>(rank)] + own.offset;
    if (!block.leaves_sum) {
      enqueue_meeting(signals, stream); // all pieces have arrived
      LocalSum local{.piece_count = signals.world_size,
                     .sum = sum,
                     .element_count = own.bytes / planner::size_bytes(dtype_),
                     .dtype = dtype_};
      for (int from = 0; from < signals.world_size; ++from)
        local.pieces[static_cast<std::size_t>(from)] =
            from == rank ? block.send[static_cast<std::size_t>(rank)] + own.offset : stage(from, rank, block);
      if (own.bytes > 0) enqueue_sum(local, cta_count_, stream);
    }
    for_each_peer(
        [&](int peer) { copy(block.receive[static_cast<std::size_t>(peer)] + own.offset, sum, own.bytes, stream); });
    enqueue_meeting(signals, stream); // now peers may reuse the staging memory, and all have the sums
  }

 private:
  struct Share {
    std::int64_t offset; ///< bytes
    std::int64_t bytes;
  };

  [[nodiscard]] std::int64_t share_bytes(const BlockExchange& block) const {
    return rank_share_bytes(block.element_count * planner::size_bytes(dtype_), signals_.front().world_size);
  }
  [[nodiscard]] Share share_of(int rank, const BlockExchange& block) const {
    const std::int64_t all_bytes = block.element_count * planner::size_bytes(dtype_), most_bytes = share_bytes(block);
    const std::int64_t offset = std::min(all_bytes, rank * most_bytes);
    return {offset, std::min(all_bytes - offset, most_bytes)};
  }
  [[nodiscard]] std::byte* stage(int from, int to, const BlockExchange& block) const {
    return block.staging[static_cast<std::size_t>(to)] +
           stage_place(from, to, signals_.front().world_size) * share_bytes(block);
  }
  static void copy(std::byte* to, const std::byte* from, std::int64_t bytes, cudaStream_t stream) {
    if (bytes > 0) MC2_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream));
  }

  planner::DType dtype_;
  std::vector<SignalMemory> signals_; ///< by rank
  int cta_count_;                     ///< thread blocks of a sum; these suffice to use all memory bandwidth
};

ncclDataType_t nccl_type(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::F32: return ncclFloat32;
    case planner::DType::F16: return ncclFloat16;
    case planner::DType::Bf16: return ncclBfloat16;
    case planner::DType::I8:
    case planner::DType::F8E4m3: break; // these travel as bf16 (exchanged_as())
  }
  return ncclFloat32;
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(const planner::OpSpec& op, const CudaVariant& variant, std::vector<ncclComm_t> communicators)
      : collective_(planner::collective_of(op.kind)),
        dtype_(op.dtype),
        type_(nccl_type(op.dtype)),
        has_windows_(variant.has_windows),
        takes_no_sm_(variant.takes_no_sm),
        arrives_dense_(stages_pieces(op, variant)),
        communicators_(std::move(communicators)),
        windows_(communicators_.size()) {}

  [[nodiscard]] bool reaches_peers() const noexcept override { return false; }
  [[nodiscard]] bool has_windows() const override { return has_windows_; }
  [[nodiscard]] bool takes_no_sm() const override { return takes_no_sm_; }

  void register_memory(int rank, std::span<std::byte> memory) override {
    const auto index = static_cast<std::size_t>(rank);
    ncclWindow_t window = nullptr;
    check(ncclCommWindowRegister(communicators_[index], memory.data(), memory.size(), &window, NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister", rank);
    windows_[index].push_back(window);
  }

  void release_memory(int rank) override {
    const auto index = static_cast<std::size_t>(rank);
    for (ncclWindow_t window : windows_[index])
      check(ncclCommWindowDeregister(communicators_[index], window), "ncclCommWindowDeregister", rank);
    windows_[index].clear();
  }

  void enqueue(int rank, const BlockExchange& block, int /*slice*/, cudaStream_t stream) const override {
    const auto index = static_cast<std::size_t>(rank);
    const ncclComm_t communicator = communicators_[index];
    const auto count = static_cast<std::size_t>(block.element_count);
    const std::byte* send = block.send[index];
    std::byte* receive = block.receive[index];
    switch (collective_) {
      case Collective::AllReduce: return all_reduce(rank, block, stream);
      case Collective::ReduceScatter:
        return check(ncclReduceScatter(send, receive, count, type_, ncclSum, communicator, stream), "ncclReduceScatter",
                     rank);
      case Collective::AllGather:
        return check(ncclAllGather(send, receive, count, type_, communicator, stream), "ncclAllGather", rank);
      case Collective::AllToAll:
        if (!takes_no_sm_) return all_to_all(rank, block, stream);
        return check(ncclAlltoAll(send, receive, count, type_, communicator, stream), "ncclAlltoAll", rank);
    }
  }

 private:
  void all_reduce(int rank, const BlockExchange& block, cudaStream_t stream) const {
    const auto index = static_cast<std::size_t>(rank);
    const auto count = static_cast<std::size_t>(block.element_count);
    const std::byte* send = block.send[index];
    std::byte* sum = block.row_elements == 0 ? block.receive[index] : block.staging[index];
    check(ncclAllReduce(send, sum, count, type_, ncclSum, communicators_[index], stream), "ncclAllReduce", rank);
    if (block.row_elements != 0) Pieces(block, dtype_).put_down(rank, rank, sum, stream);
  }

  // Does not use ncclAlltoAll, because the pieces of a block of a cut do not touch. Pieces that are put down row by row
  // arrive dense in staging memory first.
  void all_to_all(int rank, const BlockExchange& block, cudaStream_t stream) const {
    const ncclComm_t communicator = communicators_[static_cast<std::size_t>(rank)];
    const auto world_size = static_cast<int>(communicators_.size());
    const Pieces pieces(block, dtype_);
    pieces.copy_own(rank, stream);
    check(ncclGroupStart(), "ncclGroupStart", rank);
    for (int distance = 1; distance < world_size; ++distance) {
      const int to = (rank + distance) % world_size;
      const int from = (rank + world_size - distance) % world_size;
      pieces.for_each_part(rank, to, [&](const std::byte* source, std::byte* /*landing*/, std::int64_t count) {
        check(ncclSend(source, static_cast<std::size_t>(count), type_, to, communicator, stream), "ncclSend", rank);
      });
      pieces.for_each_part(from, rank, [&](const std::byte* /*source*/, std::byte* landing, std::int64_t count) {
        std::byte* place = arrives_dense_ ? pieces.stage(from, rank, world_size) : landing;
        check(ncclRecv(place, static_cast<std::size_t>(count), type_, from, communicator, stream), "ncclRecv", rank);
      });
    }
    check(ncclGroupEnd(), "ncclGroupEnd", rank);
    for (int distance = 1; arrives_dense_ && distance < world_size; ++distance) {
      const int from = (rank + distance) % world_size;
      pieces.put_down(from, rank, pieces.stage(from, rank, world_size), stream);
    }
  }

  Collective collective_;
  planner::DType dtype_;
  ncclDataType_t type_;
  bool has_windows_;
  bool takes_no_sm_;
  bool arrives_dense_;                    ///< pieces arrive dense in staging memory and are then put down row by row
  std::vector<ncclComm_t> communicators_; ///< by rank
  std::vector<std::vector<ncclWindow_t>> windows_; ///< by rank
};

class HierarchicalTransport final : public Transport {
 public:
  HierarchicalTransport(const planner::OpSpec& op, const CudaVariant& variant, HostsPlace place)
      : collective_(planner::collective_of(op.kind)),
        settings_{.collective = DirectCollective::ReduceScatter, .dtype = op.dtype, .cta_count = variant.cta_count},
        element_bytes_(planner::size_bytes(op.dtype)),
        place_(std::move(place)) {}

  [[nodiscard]] bool uses_nccl() const noexcept override { return true; }
  [[nodiscard]] bool reaches_sent() const noexcept override { return false; }

  void enqueue(int rank, const BlockExchange& block, int /*slice*/, cudaStream_t stream) const override {
    switch (collective_) {
      case Collective::AllReduce: all_reduce(rank, block, stream); break;
      case Collective::ReduceScatter: reduce_scatter(rank, block, stream); break;
      case Collective::AllGather: all_gather(rank, block, stream); break;
      case Collective::AllToAll: MC2_CHECK(false, "what cannot shrink between hosts is NCCL's");
    }
    if (block.meets_after) enqueue_meeting(place_.inside, stream);
  }

 private:
  [[nodiscard]] int number() const noexcept { return place_.inside.rank; }
  [[nodiscard]] int first_of_host(int rank) const noexcept { return rank - number(); }
  /// Calls `work` for the other ranks of this host by distance, the next rank first.
  template <typename Work>
  void for_each_neighbour(int rank, const Work& work) const {
    for (int distance = 1; distance < place_.ranks_per_host; ++distance)
      work(first_of_host(rank) + (number() + distance) % place_.ranks_per_host);
  }
  static void copy(std::byte* to, const std::byte* from, std::int64_t bytes, cudaStream_t stream) {
    if (bytes > 0) MC2_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream));
  }
  /// Sums `element_count` elements of this host's ranks, from element `first` on.
  void sum_inside(int rank, const BlockExchange& block, std::int64_t first, std::int64_t element_count, std::byte* sum,
                  bool meets_before, cudaStream_t stream) const {
    BlockExchange inside{.element_count = element_count, .meets_before = meets_before};
    const std::int64_t passed_over = number() * element_count; // the kernel adds this offset again
    for (int local = 0; local < place_.ranks_per_host; ++local)
      inside.send[static_cast<std::size_t>(local)] =
          block.send[static_cast<std::size_t>(first_of_host(rank) + local)] + (first - passed_over) * element_bytes_;
    inside.receive[static_cast<std::size_t>(number())] = sum;
    enqueue_direct(settings_, inside, place_.inside, stream);
  }

  /// The sums of a rank's share replace its own products there, which no other rank reads.
  void all_reduce(int rank, const BlockExchange& block, cudaStream_t stream) const {
    const auto index = static_cast<std::size_t>(rank);
    const std::int64_t all_bytes = block.element_count * element_bytes_;
    const std::int64_t most_bytes = rank_share_bytes(all_bytes, place_.ranks_per_host);
    const auto offset_of = [&](int of) { return std::min(all_bytes, (of % place_.ranks_per_host) * most_bytes); };
    const auto bytes_of = [&](int of) { return std::min(all_bytes - offset_of(of), most_bytes); };
    std::byte* const sums = const_cast<std::byte*>(block.send[index]) + offset_of(rank);
    const std::int64_t own_count = bytes_of(rank) / element_bytes_;
    sum_inside(rank, block, offset_of(rank) / element_bytes_, own_count, sums, block.meets_before, stream);
    if (own_count > 0)
      check(ncclAllReduce(sums, sums, static_cast<std::size_t>(own_count), nccl_type(settings_.dtype), ncclSum,
                          place_.rail, stream),
            "ncclAllReduce", rank);
    enqueue_meeting(place_.inside, stream); // all shares are whole
    copy(block.receive[index] + offset_of(rank), sums, bytes_of(rank), stream);
    for_each_neighbour(rank, [&](int peer) {
      copy(block.receive[index] + offset_of(peer), block.send[static_cast<std::size_t>(peer)] + offset_of(peer),
           bytes_of(peer), stream);
    });
  }

  /// First sums over the host the pieces of each rank of this number, then over the hosts.
  void reduce_scatter(int rank, const BlockExchange& block, cudaStream_t stream) const {
    const auto index = static_cast<std::size_t>(rank);
    const std::int64_t piece_bytes = block.element_count * element_bytes_;
    for (int host = 0; host < place_.host_count; ++host)
      sum_inside(rank, block, (host * place_.ranks_per_host + number()) * block.send_stride, block.element_count,
                 block.staging[index] + host * piece_bytes, host == 0 && block.meets_before, stream);
    check(ncclReduceScatter(block.staging[index], block.receive[index], static_cast<std::size_t>(block.element_count),
                            nccl_type(settings_.dtype), ncclSum, place_.rail, stream),
          "ncclReduceScatter", rank);
  }

  /// In the exchange memory of every rank that has it, a piece lies at the same place.
  void all_gather(int rank, const BlockExchange& block, cudaStream_t stream) const {
    const std::int64_t piece_bytes = block.element_count * element_bytes_;
    const auto place_at = [&](int holder, int of) {
      return block.receive[static_cast<std::size_t>(holder)] + of * block.receive_stride * element_bytes_;
    };
    const std::byte* const own = block.send[static_cast<std::size_t>(rank)];
    const auto count = static_cast<std::size_t>(block.element_count);
    const ncclDataType_t type = nccl_type(settings_.dtype);
    check(ncclGroupStart(), "ncclGroupStart", rank);
    for (int host = 0; host < place_.host_count; ++host) {
      const int there = host * place_.ranks_per_host + number();
      if (there == rank) continue;
      check(ncclSend(own, count, type, host, place_.rail, stream), "ncclSend", rank);
      check(ncclRecv(place_at(rank, there), count, type, host, place_.rail, stream), "ncclRecv", rank);
    }
    check(ncclGroupEnd(), "ncclGroupEnd", rank);
    copy(place_at(rank, rank), own, piece_bytes, stream);
    enqueue_meeting(place_.inside, stream); // all rails have brought their pieces
    for_each_neighbour(rank, [&](int peer) {
      for (int host = 0; host < place_.host_count; ++host) {
        const int of = host * place_.ranks_per_host + peer % place_.ranks_per_host;
        copy(place_at(rank, of), place_at(peer, of), piece_bytes, stream);
      }
    });
  }

  Collective collective_;
  DirectSettings settings_; ///< for the sums over a host
  std::int64_t element_bytes_;
  HostsPlace place_;
};

} // namespace

RankRange Transport::slice_ranks(int /*rank*/, int /*slice*/) const {
  MC2_CHECK(false, "this transport hands blocks over whole");
  return {};
}

void Transport::enqueue_span(int /*rank*/, const std::vector<BlockExchange>& /*blocks*/, bool /*waits*/,
                             cudaStream_t /*stream*/) const {
  MC2_CHECK(false, "this transport carries no spans");
}

void Transport::enqueue_and_finish(int /*rank*/, const BlockExchange& /*block*/, const RowEpilogue& /*epilogue*/,
                                   cudaStream_t /*stream*/) const {
  MC2_CHECK(false, "this transport finishes no rows");
}

void Transport::announce(int /*rank*/, cudaStream_t /*stream*/) const {
  MC2_CHECK(false, "this transport carries no spans");
}

bool stages_pieces(const planner::OpSpec& op, const CudaVariant& variant) noexcept {
  switch (variant.transport) {
    case CudaVariant::Transport::CopyEngine: return planner::sums_over_ranks(op.kind);
    case CudaVariant::Transport::Nccl: // pieces that are put down row by row arrive dense
      return planner::traits_of(op.kind).lands_side_by_side || planner::cut_axis(op) == planner::CutAxis::Columns;
    case CudaVariant::Transport::Hierarchical:
      return planner::collective_of(op.kind) == planner::Collective::ReduceScatter;
    case CudaVariant::Transport::Direct:
    case CudaVariant::Transport::Persistent: break;
  }
  return false;
}

bool uses_two_streams(const StageList& stages, const CudaVariant& variant) noexcept {
  return stages.first_lane == planner::Lane::Communication && variant.transport == CudaVariant::Transport::CopyEngine;
}

PeerReach reach_of(const Transport& transport, planner::Lane first_lane) noexcept {
  const bool sends_a = first_lane == planner::Lane::Communication;
  return {.a = sends_a && transport.reaches_sent(), .c = !sends_a && transport.writes_to_peers()};
}

std::unique_ptr<Transport> make_direct_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                 std::vector<SignalMemory> signals, int sm_count) {
  const DirectSettings settings{.collective = direct_collective(op), .dtype = op.dtype, .cta_count = variant.cta_count};
  return std::make_unique<DirectTransport>(settings, variant.is_low_latency, std::move(signals), sm_count);
}

std::unique_ptr<Transport> make_persistent_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                     std::vector<SignalMemory> signals, int sm_count) {
  MC2_CHECK(planner::traits_of(op.kind).first_lane == planner::Lane::Compute, "peers' pieces are announced");
  const DirectSettings settings{.collective = direct_collective(op), .dtype = op.dtype, .cta_count = variant.cta_count};
  return std::make_unique<PersistentTransport>(settings, std::move(signals), sm_count);
}

std::unique_ptr<Transport> make_nccl_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                               std::vector<ncclComm_t> communicators) {
  return std::make_unique<NcclTransport>(op, variant, std::move(communicators));
}

std::unique_ptr<Transport> make_hierarchical_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                       HostsPlace place) {
  return std::make_unique<HierarchicalTransport>(op, variant, std::move(place));
}

std::unique_ptr<Transport> make_copy_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                               std::vector<SignalMemory> signals, int sm_count) {
  if (planner::collective_of(op.kind) == Collective::AllReduce)
    return std::make_unique<PushAllReduceTransport>(op.dtype, std::move(signals), sm_count);
  if (planner::traits_of(op.kind).communicates_first())
    return std::make_unique<PullTransport>(op.dtype, variant.slicing, std::move(signals));
  return std::make_unique<PushTransport>(op.dtype, planner::sums_over_ranks(op.kind), std::move(signals), sm_count);
}

} // namespace mc2::executor::cuda
