#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace mc2::simulated {

using Work = std::function<void()>;
using Clock = std::chrono::steady_clock;
class Stream;

struct Node {
  cudaGraphNodeType type;
  Work work;
  std::vector<std::size_t> after; ///< nodes that end before it begins
  std::size_t lane;               ///< the stream that it was captured on
};

struct Graph {
  std::vector<Node> nodes;
  std::size_t lane_count = 0;
};

/// A capture from its begin to its end. Guarded by capture_mutex(), as a stream's membership is.
struct Capture {
  struct Member {
    std::size_t lane;
    std::vector<std::size_t> tips; ///< nodes that the next of this stream follows
  };
  Graph graph;
  Stream* origin = nullptr;
  std::map<Stream*, Member> members;
  bool is_active = true;
  bool is_invalid = false;

  void join(Stream& stream, const std::vector<std::size_t>& tips);
  void add(Stream& stream, cudaGraphNodeType type, Work work);
  /// Whether what every stream was given comes before the origin's end.
  [[nodiscard]] bool is_joined() const;
};

std::mutex& capture_mutex();

/// A place in a stream, and when it was reached.
class Record {
 public:
  void complete();
  void wait();
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] Clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_complete_ = false;
  Clock::time_point time_;
};

/// Guarded by capture_mutex().
struct Event {
  int device;
  std::shared_ptr<Record> last;     ///< null before the first
  std::shared_ptr<Capture> capture; ///< where the last record was a place in a graph
  std::vector<std::size_t> tips;    ///< which
};

/// A thread that does what it is given, in order. One that never ends is left behind when the process ends.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> open(int device, bool is_blocking);
  void push(Work work);
  void drain();
  /// The thread ends when it has done all.
  void close();
  [[nodiscard]] bool is_idle() const;
  /// How much has been given, and whether so much has been done.
  [[nodiscard]] std::uint64_t issued() const;
  void wait(std::uint64_t count);

  const int device;
  const bool is_blocking; ///< takes turns with the legacy default stream
  std::shared_ptr<Capture> capture;

  Stream(int device_number, bool blocks) : device(device_number), is_blocking(blocks) {}

 private:
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t issued_ = 0, finished_ = 0;
  bool is_closed_ = false;
};

/// An instantiated graph.
class Executable {
 public:
  explicit Executable(Graph graph) : graph_(std::move(graph)) {}
  /// Launches follow one another.
  void run();

 private:
  Graph graph_;
  std::mutex turn_;
};

/// The stream of a handle; the default ones are the current device's.
[[nodiscard]] std::shared_ptr<Stream> stream_of(cudaStream_t handle);
[[nodiscard]] std::shared_ptr<Event>& event_of(cudaEvent_t handle);
/// Gives a stream something to do, now or in the graph that it is captured for.
[[nodiscard]] cudaError_t submit(cudaStream_t handle, cudaGraphNodeType type, Work work);
void drain_device(int device);

} // namespace mc2::simulated
