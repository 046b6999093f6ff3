#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

struct ExecuteOptions; // executor.hpp
struct StageList;      // a plan's stages for a backend (stage.hpp)

/// What a run executes. The kind gives the order of the lanes: kinds that compute first exchange the products; kinds
/// that communicate first (all_gather_matmul, all_to_all_matmul) multiply the rows of A that arrived. Where a kind has
/// a local part, the rank's own shard, the compute lane always begins with it.
enum class RunMode : std::uint8_t {
  Fused,             ///< both lanes; the second lane begins a block when the first has ended it
  ComputeOnly,       ///< the matmuls of all blocks and the local part, back to back. Kinds that compute first do not
                     ///< write C; the others write C from the rows that arrived last
  CommunicationOnly, ///< the collectives of all blocks, back to back. Kinds that compute first write C from the
                     ///< products of the last matmuls, or do not write it where fused runs sum in the matmul; the
                     ///< others move rows of A and do not write C
  Independent,       ///< both lanes at once, on separate data and without waiting for each other: measures contention.
                     ///< The contents of C mean nothing afterwards
  Serial, ///< the second lane and the local part start when the first lane has done all its blocks. With an uncut
          ///< plan this is what a program without mc2 does
  /// The compute lane of Serial alone. Some backends then multiply all rows of A in one matmul, since all are there;
  /// others do the same as ComputeOnly. Writes C as ComputeOnly does, from the rows that the last Serial run moved.
  SerialCompute,
};

/// What a run times.
enum class RunDetail : std::uint8_t {
  Makespan, ///< only the whole run, at no cost; stage times may be zero
  Stages,   ///< also every stage, which on some devices slows a Fused run
};

/// Start and end of one stage on one lane, relative to the run's start.
struct StageTime {
  std::chrono::nanoseconds start{0};
  std::chrono::nanoseconds end{0};
  bool operator==(const StageTime&) const = default;
};

/// When the lanes of a rank worked. With a variant that divides blocks into slices, a stage lasts from the start of its
/// first slice to the end of its last, so it may start on the second lane before it has ended on the first.
struct RankTimes {
  int rank = 0;
  std::vector<StageTime> compute;       ///< one per stage; all zero in CommunicationOnly
  std::vector<StageTime> communication; ///< one per stage; all zero in ComputeOnly
  StageTime local;                      ///< the rank's own shard on the compute lane, before its stages; zero for kinds
                                        ///< without a local part
};

/// The times of one run.
struct RunRecord {
  /// From the first start to the last end, over the local ranks and the lanes that ran. If A of all ranks is wanted
  /// (RankBuffers::gathered_a), its last copies come after the stages and count, too.
  std::chrono::nanoseconds makespan{0};
  /// How long the caller waited, by the machine's clock: the makespan plus the wake-ups of the lanes. With an emulated
  /// link or virtual compute the stages have the times of the modelled device; `wall` shows how well the machine kept
  /// to them.
  std::chrono::nanoseconds wall{0};
  std::vector<RankTimes> ranks; ///< the local ranks; backend cuda: all ranks, also those that other processes hold
};

struct PrepareOptions {
  bool allow_independent = false; ///< also allocate what RunMode::Independent needs (a second set of intermediates)
};

/// How enqueue() hands a fused run to devices with streams.
enum class Submission : std::uint8_t {
  /// One launch of the captured pipeline. In three cases it is Eager instead: in the first runs on matrices that
  /// rebind() has given; on a stream that is being captured, where the caller's graph takes up the pipeline; and where
  /// more than four ranks share a device.
  Graph,
  Eager, ///< kernel by kernel
};

/// Which of a rank's matrices other ranks access during a run, at the addresses that prepare() was given.
struct PeerReach {
  bool a = true;
  bool c = true;
};

/// A plan bound to buffers, ready to run any number of times.
class Prepared {
 public:
  virtual ~Prepared() = default;

  /// Runs once, after the runs of this plan that are enqueued, and returns when every local rank has finished. The
  /// record is valid until the next run. Order: *collective* over processes. Threads: one run at a time per
  /// Communicator; a second thread gets SystemError. Throws SystemError when a lane fails or the communicator's
  /// deadline passes; the communicator is then aborted, and every later run throws, too. RunMode::Independent without
  /// PrepareOptions::allow_independent is a programming error.
  virtual const RunRecord& run(RunMode mode, RunDetail detail) = 0;
  const RunRecord& run(RunMode mode) { return run(mode, RunDetail::Stages); }

  /// Enqueues one Fused run of every local rank and returns without waiting for it. In each stream the rank's part runs
  /// after the work that the stream holds now and before work that it is given later. Allocates nothing, with one
  /// exception: when rebind() has given the same matrices for the third time, the pipeline is captured for them.
  /// @param streams  native handles (cudaStream_t), one per local rank, in the order of local_ranks()
  /// Order: *collective* over processes. If two runs of a communicator use different streams, the caller orders the
  /// streams so that the runs do not overlap. Threads: as run().
  /// Errors: Unsupported (a backend without streams), InvalidSpec (not one stream per local rank, a stream of another
  /// device, or the per-thread default stream). Throws SystemError, also for a failure of another process since the
  /// last call. There is no deadline: a rank whose stream never reaches its part blocks the others. Lifetime: the
  /// destructor waits for enqueued runs. A caller's graph that contains a run must not be launched after the
  /// destructor.
  [[nodiscard]] virtual Result<void> enqueue(std::span<void* const> /*streams*/, Submission /*submission*/) {
    return Error{ErrorCode::Unsupported, "streams", "this backend has no streams; run() runs the plan"};
  }

  /// The matrices whose addresses rebind() must not change.
  [[nodiscard]] virtual PeerReach peer_reach() const noexcept { return {}; }
  /// Makes later runs work on other matrices, so that a program whose operands move between runs needs no second plan.
  /// The matrices have the same sizes and at least the alignment of those given to prepare(). Bags may change, too; the
  /// runs check them. Runs that are enqueued already keep their matrices.
  /// @param buffers one per local rank, as for prepare()
  /// Order: between two runs, on all ranks or on none.
  /// Errors: Unsupported (a backend or variant that packs or registers its operands), InvalidSpec naming rank and
  /// matrix, also when a matrix that peers access has another address (peer_reach()). Threads: as run().
  [[nodiscard]] virtual Result<void> rebind(std::span<const RankBuffers> /*buffers*/) {
    return Error{ErrorCode::Unsupported, "buffers",
                 "this backend works on the buffers that the plan was prepared with; prepare it for others"};
  }

  /// The data that pass between the lanes as the last run left them, one entry per local rank:
  ///   kinds that compute first  the rank's product [m, n]. After a Fused or CommunicationOnly run C consists of sums
  ///                             or rows of the products. Where blocks are columns: block after block, each [m, b].
  ///                             Virtual compute never writes the product: it keeps the reproducible random numbers
  ///                             that prepare() put there
  ///   the others                the rows of A that arrived, [m, k]; the rank's own rows are not copied, and the
  ///                             contents of their place mean nothing
  /// verify_exchange() uses it to check the collective. Empty for a backend without virtual compute, which needs no
  /// such check. In memory of this process; valid as long as *this.
  [[nodiscard]] virtual std::span<const std::span<const std::byte>> intermediates() const noexcept { return {}; }
};

/// Memory of a rank's device, owned.
class RankMemory {
 public:
  virtual ~RankMemory() = default;

  /// Addresses on the rank's device. This process may read and write them only if Communicator::uses_host_memory().
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
  /// Copies from or to the beginning of the memory, as many bytes as the span has, and returns when the copy is done.
  /// The span must not be longer than the memory. Throws SystemError.
  virtual void upload(std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to) const = 0;
};

/// The ranks that this process holds, with their lanes, memory and links. Made by Backend::open.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int world_size() const noexcept = 0;
  [[nodiscard]] virtual std::span<const int> local_ranks() const noexcept = 0;
  [[nodiscard]] virtual const planner::Fingerprint& fingerprint() const noexcept = 0;
  /// Whether RankBuffers point to ordinary memory of this process.
  [[nodiscard]] virtual bool uses_host_memory() const noexcept = 0;
  /// Allocates memory of a local rank for RankBuffers, aligned for every variant; must not outlive *this.
  /// Throws SystemError when there is not enough.
  [[nodiscard]] virtual std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) = 0;

  /// Tells all processes whether any of them failed before prepare(), so that none waits there for one that does not
  /// come. Every process passes its own error or success and gets the same result: the first error, or success. A
  /// communicator that holds all ranks itself returns `own`. Order: *collective*. Throws SystemError.
  [[nodiscard]] virtual Result<void> share_error(const Result<void>& own) { return own; }

 protected:
  friend Result<std::unique_ptr<Prepared>> prepare(const planner::Plan& plan, std::span<const RankBuffers> buffers,
                                                   Communicator& communicator, const ExecuteOptions& options);

  /// Packs weights, builds kernels and allocates everything, so that run() allocates nothing. Only executor::prepare()
  /// calls it, with legal stages.
  /// @param buffers one per local rank, in the order of local_ranks(); must outlive the result, as must *this
  /// Errors: InvalidSpec (wrong buffer size, illegal bags, illegal counts, counts on which two ranks disagree, naming
  /// both, overlapping C, another world size), UnknownName (variant), Unsupported (dtype, operator or memory of this
  /// machine). Throws SystemError when memory or a library fails, and when an earlier run has aborted the communicator.
  [[nodiscard]] virtual Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                         const planner::Variant& variant,
                                                                         std::span<const RankBuffers> buffers,
                                                                         const PrepareOptions& options) = 0;
};

} // namespace mc2::executor

#pragma GCC visibility pop
