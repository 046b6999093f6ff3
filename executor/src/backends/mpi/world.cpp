#include "backends/mpi/world.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "after_deadline.hpp"
#include "backends/mpi/check.hpp"
#include "backends/mpi/link_probe.hpp"
#include "backends/mpi/waiting.hpp"
#include "lanes/gemm.hpp"
#include "lanes/machine.hpp"
#include "mc2/executor/failure_log.hpp"
#include "mc2/planner/text.hpp"
#include "node/shared_file.hpp"
#include "texts.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr int kSystemExitCode = 6; // mc2's exit code when a library or device has failed

std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  // "Open MPI v4.1.4, package: Debian OpenMPI, ident: ..."
  const std::string_view whole(text);
  return std::string(whole.substr(0, whole.find_first_of(",\n")));
}

/// The name that the host of each rank gives itself.
std::vector<std::string> host_names(int rank_count) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
  int length = 0;
  check(MPI_Get_processor_name(own.data(), &length), "MPI_Get_processor_name");
  std::vector<char> all(own.size() * static_cast<std::size_t>(rank_count));
  const int size = static_cast<int>(own.size());
  check(MPI_Allgather(own.data(), size, MPI_CHAR, all.data(), size, MPI_CHAR, MPI_COMM_WORLD), "MPI_Allgather");
  std::vector<std::string> names;
  for (std::size_t at = 0; at < all.size(); at += own.size()) names.emplace_back(all.data() + at);
  return names;
}

/// The launcher's choice of transports, which decides how fast messages travel.
std::string transport_settings() {
  std::vector<std::string> settings;
  for (const char* name : {"pml", "btl", "btl_tcp_if_include"}) {
    const char* value = std::getenv((std::string("OMPI_MCA_") + name).c_str());
    if (value != nullptr) settings.push_back(std::string(name) + ":" + value);
  }
  return settings.empty() ? "default" : list_text(settings, " ");
}

constexpr const char* kLate =
    "; every rank must, and one has not, hangs, or cannot be reached. A longer deadline waits longer";

/// For calls of MPI that wait for other processes and cannot be given up. None without a deadline.
/// @param what  what the other ranks have to do, e.g. "start MPI"
std::unique_ptr<AfterDeadline> ends_job_after(std::optional<std::chrono::milliseconds> deadline, const char* what) {
  if (!deadline) return nullptr;
  return std::make_unique<AfterDeadline>(*deadline, [deadline = *deadline, what] {
    abort_job("waited " + milliseconds_text(deadline) + " for the other ranks to " + what + kLate);
  });
}

/// More ranks do not greet one another: every pair that greets connects.
constexpr int kMostThatGreet = 64;

/// Every rank sends a message to every other. Unlike a collective of MPI, this shows whose message has not come.
/// Order: collective. Ends the job at the deadline, naming these ranks.
void greet(int own_rank, int size, std::chrono::milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(size), MPI_REQUEST_NULL);
  for (int i = 0; i < size; ++i) {
    if (i == own_rank) continue;
    const auto at = static_cast<std::size_t>(i);
    check(MPI_Irecv(nullptr, 0, MPI_BYTE, i, 0, MPI_COMM_WORLD, &requests[at]), "MPI_Irecv");
    check(MPI_Isend(nullptr, 0, MPI_BYTE, i, 0, MPI_COMM_WORLD, &requests[at + static_cast<std::size_t>(size)]),
          "MPI_Isend");
  }
  const auto still_open = [&](int first) {
    std::vector<std::string> ranks;
    for (int i = 0, is_done = 0; i < size; ++i) {
      MPI_Test(&requests[static_cast<std::size_t>(first + i)], &is_done, MPI_STATUS_IGNORE);
      if (is_done == 0) ranks.push_back(rank_text(i));
    }
    return ranks;
  };
  const Patience patience(std::chrono::microseconds{100}, std::chrono::milliseconds{2});
  wait_all(requests, [&] {
    if (Clock::now() < end) return patience.pause();
    const auto silent = still_open(0), deaf = still_open(size);
    if (silent.empty() && deaf.empty()) return;
    abort_job("waited " + milliseconds_text(deadline) + " for a message " +
              (silent.empty() ? "to " + list_text(deaf) : "of " + list_text(silent)) +
              "; the processes run, so can their hosts connect to each other's ports? A longer deadline waits longer");
  });
}

/// This process's rank in the launcher's environment, for errors before MPI has started.
std::optional<int> launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* text = std::getenv(name)) return number_in<int>(text);
  return std::nullopt;
}

/// This process in errors, once World knows the hosts.
std::atomic<const std::string*> own_name = nullptr;

std::string own_name_text() {
  if (const std::string* known = own_name.load()) return *known;
  int is_running = 0, rank = launched_rank().value_or(-1);
  MPI_Initialized(&is_running);
  if (is_running != 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return (rank < 0 ? "a process" : rank_text(rank)) + " on " + host_name();
}

} // namespace

int launched_process_count() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    int count = 0;
    const std::string_view digits(text);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (read.ec == std::errc() && count > 0) return count;
  }
  return 1;
}

World& World::get(std::optional<std::chrono::milliseconds> deadline) {
  static World world(deadline);
  return world;
}

void World::start() {
  int is_running = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&is_running);
  if (is_running == 0) {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    is_owner_ = true;
  } else {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
  }
  if (level < MPI_THREAD_MULTIPLE) {
    throw SystemError("MPI_Init_thread", level, "mc2 needs MPI_THREAD_MULTIPLE, which MPI was not started with");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

World::World(std::optional<std::chrono::milliseconds> deadline)
    : opening_deadline_(deadline.value_or(kOpeningDeadline)) {
  auto guard = ends_job_after(deadline, "start MPI");
  start();
  guard.reset();
  // In a program that had started MPI itself, a message of its own may be under way.
  if (deadline && is_owner_ && size_ <= kMostThatGreet) greet(rank_, size_, *deadline);
  library_ = library_name();
  guard = ends_job_after(deadline, "open the mpi backend");
  find_places();
  guard.reset();
  links_ = pretends_nodes_ ? Links(placement_->node_count())
                           : measured_links(*placement_, rank_, Channel(opening_deadline_).get());
}

void World::find_places() {
  hosts_ = host_names(size_);
  static const std::string name = name_of(rank_);
  own_name = &name;
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  const std::vector<int> firsts = first_ranks_of_nodes(node);
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  const std::vector<bool> mapped = ranks_that_map(firsts);
  check(MPI_Comm_split(MPI_COMM_WORLD, first_of_mapped(firsts, mapped), rank_, &node), "MPI_Comm_split");
  find_cores(node);
  place(node);
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  shares_node_memory_ = all_neighbours_are(mapped);
}

std::string World::name_of(int rank) const {
  const std::string& host = hosts_[static_cast<std::size_t>(rank)];
  const bool is_one_host =
      std::ranges::all_of(hosts_, [&](const std::string& other) { return other == hosts_.front(); });
  return rank_text(rank) + (is_one_host ? "" : " on " + host);
}

std::vector<int> World::ring_of_ranks() const {
  std::vector<int> ranks;
  if (links_->text().empty()) {
    for (int rank = 0; rank < size_; ++rank) ranks.push_back(rank);
    return ranks;
  }
  for (const int node : links_->ring())
    ranks.insert(ranks.end(), placement_->ranks_of(node).begin(), placement_->ranks_of(node).end());
  return ranks;
}

World::~World() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_owner_ && is_over == 0) MPI_Finalize();
}

void World::find_cores(MPI_Comm node) {
  cores_ = lanes::allowed_cores();
  int own = 0, node_size = 1;
  MPI_Comm_rank(node, &own);
  MPI_Comm_size(node, &node_size);
  const lanes::CoreShare share =
      lanes::share_of_cores(cores_of_processes(node, node_size), static_cast<std::size_t>(own));
  core_place_ = share.place;
  // All ranks get as many threads, and pin them or not, as the rank with the fewest cores. Their matmuls take as long
  // then, and a plan has one machine.
  int most[3] = {node_size, share.process_count, share.overlaps ? 1 : 0};
  check(MPI_Allreduce(MPI_IN_PLACE, most, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  most_on_a_node_ = most[0];
  most_on_cores_ = most[1];
  are_cores_apart_ = most[2] == 0;
}

std::vector<std::vector<int>> World::cores_of_processes(MPI_Comm node, int node_size) const {
  int width = cores_.back() + 1;
  check(MPI_Allreduce(MPI_IN_PLACE, &width, 1, MPI_INT, MPI_MAX, node), "MPI_Allreduce");
  std::vector<char> mine(static_cast<std::size_t>(width)), all(mine.size() * static_cast<std::size_t>(node_size));
  for (const int core : cores_) mine[static_cast<std::size_t>(core)] = 1;
  check(MPI_Allgather(mine.data(), width, MPI_CHAR, all.data(), width, MPI_CHAR, node), "MPI_Allgather");
  std::vector<std::vector<int>> cores(static_cast<std::size_t>(node_size));
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != 0) cores[i / mine.size()].push_back(static_cast<int>(i % mine.size()));
  return cores;
}

std::vector<int> World::first_ranks_of_nodes(MPI_Comm node) const {
  int first = rank_;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
  std::vector<int> firsts(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  return firsts;
}

int World::first_rank_that_differs(const std::string& own) const {
  int length = static_cast<int>(own.size());
  check(MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  std::string first(static_cast<std::size_t>(length), '\0');
  if (rank_ == 0) first = own;
  check(MPI_Bcast(first.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  int differs = own == first ? size_ : rank_;
  check(MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  return differs;
}

void World::place(MPI_Comm node) {
  placement_ = Placement(first_ranks_of_nodes(node));
  const char* pretended = std::getenv("MC2_PRETENDED_NODES");
  const std::string own = pretended == nullptr ? "none" : "=" + std::string(pretended);
  if (const int other = first_rank_that_differs(own); other < size_) {
    pretence_ =
        Error{ErrorCode::InvalidSpec, "MC2_PRETENDED_NODES",
              rank_text(other) + " has another value than rank 0; mpirun -x MC2_PRETENDED_NODES gives all ranks one"};
    return;
  }
  if (pretended == nullptr) return;
  auto read = Placement::parse(pretended, size_);
  if (!read) {
    pretence_ = read.error();
    return;
  }
  placement_ = std::move(read).value();
  pretends_nodes_ = true;
}

std::vector<bool> World::ranks_that_map(const std::vector<int>& firsts) const {
  const auto own = static_cast<std::size_t>(rank_);
  const node::SharedFile file(sizeof(std::int64_t));
  // The time tells this job's page from others: in several PID namespaces processes may have the same numbers.
  const std::array<std::int64_t, 2> mine{file.address(), std::chrono::steady_clock::now().time_since_epoch().count()};
  file.write(mine[1]);
  std::vector<std::array<std::int64_t, 2>> all(static_cast<std::size_t>(size_));
  check(MPI_Allgather(mine.data(), 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, MPI_COMM_WORLD), "MPI_Allgather");
  std::vector<bool> mapped(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (firsts[rank] != firsts[own] && hosts_[rank] != hosts_[own]) continue;
    const auto& [address, written] = all[rank];
    const node::SharedFile other = node::SharedFile::open(address);
    std::int64_t found = 0;
    mapped[rank] = other.read(found) && found == written;
  }
  check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); // the files stay open until every process has looked
  return mapped;
}

int World::first_of_mapped(const std::vector<int>& firsts, const std::vector<bool>& mapped) const {
  int first = firsts[static_cast<std::size_t>(rank_)];
  for (std::size_t rank = 0; rank < firsts.size(); ++rank)
    if (mapped[rank]) first = std::min(first, firsts[rank]);
  return first;
}

bool World::all_neighbours_are(const std::vector<bool>& mapped) const {
  const auto& neighbours = placement_->ranks_of(placement_->node_of(rank_));
  int are_all =
      std::ranges::all_of(neighbours, [&](int rank) { return mapped[static_cast<std::size_t>(rank)]; }) ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &are_all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  return are_all == 1;
}

lanes::CoreLayout World::core_layout(bool pin_threads) const {
  return {cores_, most_on_cores_, pin_threads && are_cores_apart_};
}

planner::Fingerprint mpi_fingerprint(const CommunicatorOptions& options) {
  const World& world = World::get();
  const auto layout = world.core_layout(options.pin_threads);
  planner::Fingerprint machine{{{"backend", "mpi"},
                                {"compute_threads", std::to_string(layout.compute_thread_count())},
                                {"cores", std::to_string(world.core_count())},
                                {"cpu_model", lanes::cpu_model()},
                                {"isa", lanes::gemm_isa()},
                                {"link", "mpi"},
                                {"mpi", world.library()},
                                {"nodes", std::to_string(world.placement().node_count())},
                                {"onednn", lanes::gemm_library_version()},
                                {"pinning", std::string(lanes::to_string(layout.pinning()))},
                                {"ranks", std::to_string(options.world_size)},
                                {"transports", transport_settings()}}};
  // The placement decides which steps of a ring leave a node and what ranks can sum before data leaves it.
  if (world.placement().is_hierarchy()) machine.fields["node_of_ranks"] = world.placement().text();
  if (const std::string slow = world.links().text(); !slow.empty()) machine.fields["slow_links"] = slow;
  if (world.pretends_nodes()) machine.fields["emulation"] = "nodes";
  return machine;
}

void abort_job(const std::string& reason) noexcept {
  log_failure("aborted by " + own_name_text() + ": " + reason);
  std::fflush(nullptr);
  int is_running = 0;
  MPI_Initialized(&is_running);
  if (is_running != 0)
    MPI_Abort(MPI_COMM_WORLD, kSystemExitCode); // before, Open MPI's mpirun sees how this process ends
  std::_Exit(kSystemExitCode);
}

Channel::Channel(std::chrono::milliseconds deadline) {
  const auto guard = ends_job_after(deadline, "open the mpi backend");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Channel::Channel(const std::vector<int>& ranks, std::chrono::milliseconds deadline) {
  const auto guard = ends_job_after(deadline, "open the mpi backend");
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "MPI_Group_incl");
  check(MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &comm_), "MPI_Comm_create_group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Channel::~Channel() { MPI_Comm_free(&comm_); }

} // namespace mc2::executor::mpi
