#include "simulated_gpu/stream.hpp"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "simulated_gpu/device.hpp"

namespace mc2::simulated {
namespace {

/// All open streams. The object is never destroyed, because the threads of streams outlive main().
struct Streams {
  std::mutex mutex;
  std::vector<std::weak_ptr<Stream>> all;
  std::map<int, std::shared_ptr<Stream>> defaults; ///< by device
};

Streams& streams() {
  static auto* const found = new Streams;
  return *found;
}

std::vector<std::shared_ptr<Stream>> streams_on(int device) {
  Streams& open = streams();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.all, [](const auto& stream) { return stream.expired(); });
  std::vector<std::shared_ptr<Stream>> found;
  for (const auto& weak : open.all)
    if (auto stream = weak.lock(); stream && stream->device == device) found.push_back(std::move(stream));
  return found;
}

std::shared_ptr<Stream> default_stream(int device) {
  Streams& open = streams();
  {
    const std::lock_guard lock(open.mutex);
    if (const auto found = open.defaults.find(device); found != open.defaults.end()) return found->second;
  }
  auto made = Stream::open(device, false);
  const std::lock_guard lock(open.mutex);
  return open.defaults.try_emplace(device, std::move(made)).first->second;
}

bool is_default(cudaStream_t handle) {
  return handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
}

/// Wraps work so that it first waits for the earlier work of the streams that its stream synchronises with: for the
/// legacy default stream all blocking streams of the device, for a blocking stream the legacy default stream.
Work in_turn(Work work, bool is_default_stream, const Stream& stream) {
  std::vector<std::pair<std::shared_ptr<Stream>, std::uint64_t>> before;
  if (is_default_stream) {
    for (auto& other : streams_on(stream.device))
      if (other->is_blocking) before.emplace_back(other, other->issued());
  } else if (stream.is_blocking) {
    auto first = default_stream(stream.device);
    before.emplace_back(first, first->issued());
  }
  std::erase_if(before, [](const auto& one) { return one.first->is_idle(); });
  if (before.empty()) return work;
  return [before, work = std::move(work)] {
    for (const auto& [other, count] : before) other->wait(count);
    work();
  };
}

} // namespace

std::mutex& capture_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

void Capture::join(Stream& stream, const std::vector<std::size_t>& tips) {
  auto& member = members.try_emplace(&stream, Member{members.size(), {}}).first->second;
  member.tips.insert(member.tips.end(), tips.begin(), tips.end());
}

void Capture::add(Stream& stream, cudaGraphNodeType type, Work work) {
  Member& member = members.at(&stream);
  graph.nodes.push_back({type, std::move(work), std::move(member.tips), member.lane});
  member.tips = {graph.nodes.size() - 1};
}

bool Capture::is_joined() const {
  std::set<std::size_t> before;
  std::vector<std::size_t> open = members.at(origin).tips;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    open.insert(open.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return before.size() == graph.nodes.size();
}

void Record::complete() {
  const std::lock_guard lock(mutex_);
  is_complete_ = true;
  time_ = Clock::now();
  changed_.notify_all();
}

void Record::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_complete_; });
}

bool Record::is_complete() const {
  const std::lock_guard lock(mutex_);
  return is_complete_;
}

Clock::time_point Record::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

std::shared_ptr<Stream> Stream::open(int device, bool is_blocking) {
  auto stream = std::make_shared<Stream>(device, is_blocking);
  {
    Streams& open = streams();
    const std::lock_guard lock(open.mutex);
    open.all.push_back(stream);
  }
  std::thread([stream] { stream->serve(); }).detach();
  return stream;
}

void Stream::serve() {
  set_current_device(device);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || is_closed_; });
    if (queue_.empty()) return;
    {
      const Work work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
    } // destroys `work`, and frees all it owns, before the stream reports it as done
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

void Stream::push(Work work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  ++issued_;
  changed_.notify_all();
}

void Stream::drain() { wait(issued()); }

void Stream::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

bool Stream::is_idle() const {
  const std::lock_guard lock(mutex_);
  return finished_ == issued_;
}

std::uint64_t Stream::issued() const {
  const std::lock_guard lock(mutex_);
  return issued_;
}

void Stream::wait(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= count; });
}

void Executable::run() {
  const std::lock_guard one_launch(turn_);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> is_done(graph_.nodes.size());
  const auto run_lane = [&](std::size_t lane) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.lane != lane) continue;
      {
        std::unique_lock lock(mutex);
        changed.wait(
            lock, [&] { return std::ranges::all_of(node.after, [&](std::size_t other) { return is_done[other]; }); });
      }
      if (node.work) node.work();
      const std::lock_guard lock(mutex);
      is_done[i] = true;
      changed.notify_all();
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t lane = 1; lane < graph_.lane_count; ++lane) others.emplace_back(run_lane, lane);
  run_lane(0);
}

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  if (is_default(handle)) return default_stream(current_device());
  return *reinterpret_cast<std::shared_ptr<Stream>*>(handle);
}

std::shared_ptr<Event>& event_of(cudaEvent_t handle) { return *reinterpret_cast<std::shared_ptr<Event>*>(handle); }

cudaError_t submit(cudaStream_t handle, cudaGraphNodeType type, Work work) {
  const auto stream = stream_of(handle);
  {
    const std::lock_guard lock(capture_mutex());
    if (stream->capture) {
      if (stream->capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
      stream->capture->add(*stream, type, std::move(work));
      return cudaSuccess;
    }
  }
  stream->push(in_turn(std::move(work), is_default(handle), *stream));
  return cudaSuccess;
}

void drain_device(int device) {
  for (const auto& stream : streams_on(device)) stream->drain();
}

} // namespace mc2::simulated
