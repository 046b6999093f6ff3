#include <pybind11/stl.h>

#include <chrono>
#include <variant>

#include "mc2/embed/workbench.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/resident_problem.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "world.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using executor::RunRecord;
using planner::OpSpec;
using planner::Plan;
using planner::Variant;
using SpanUs = std::pair<double, double>;

using planner::to_us;

std::vector<SpanUs> to_us(const std::vector<executor::StageTime>& stages) {
  std::vector<SpanUs> result;
  for (const auto& stage : stages) result.emplace_back(to_us(stage.start), to_us(stage.end));
  return result;
}

/// Random matrices on a communicator, for profiles, races and checks of any backend.
class Problem {
 public:
  Problem(std::shared_ptr<World> world, const OpSpec& op, std::uint64_t seed)
      : world_(std::move(world)), op_(checked(op)), seed_(seed), matrices_(op_, seed, world_->communicator()) {}

  [[nodiscard]] std::unique_ptr<Binding> prepare(const py::object& self, std::vector<std::int64_t> blocks,
                                                 const std::optional<Variant>& variant) {
    return prepare(self, unwrap(given_plan(*world_, op_, {std::move(blocks)}, variant)));
  }

  [[nodiscard]] std::unique_ptr<Binding> prepare(const py::object& self, const Plan& plan) {
    if (plan.op != op_)
      throw Failure({ErrorCode::InvalidSpec, "plan", "is of " + plan.op.text() + ", not of " + op_.text()});
    std::unique_ptr<executor::Prepared> prepared;
    {
      const py::gil_scoped_release released;
      const World::Turn turn(*world_);
      const executor::ExecuteOptions options{.prepare = {.allow_independent = true}};
      prepared = unwrap(executor::prepare(plan, matrices_.buffers(), world_->communicator(), options));
    }
    return std::make_unique<Binding>(world_, std::move(prepared), op_, self, true);
  }

  std::string verify(Binding& binding, std::vector<std::int64_t> blocks) {
    const planner::Cut cut{std::move(blocks)};
    unwrap(planner::validate_cut(op_, cut));
    const World::Turn turn(*world_);
    const bool is_virtual = world_->options().virtual_compute.has_value();
    return unwrap(embed::check_run(op_, matrices_, binding.prepared(), cut, ++seed_, is_virtual)).text;
  }

 private:
  const OpSpec& checked(const OpSpec& op) const {
    unwrap(world_->backend().supports(op));
    unwrap(embed::bench_facts(world_->communicator(), world_->backend(), world_->options(), op));
    unwrap(embed::check_holds_every_rank(world_->communicator()));
    return op;
  }

  std::shared_ptr<World> world_; ///< outlives the matrices; shared with every binding
  OpSpec op_;
  std::uint64_t seed_;
  executor::ResidentProblem matrices_;
};

std::shared_ptr<World> open_world(int ranks, const std::string& backend, const std::string& link,
                                  const std::optional<std::string>& virtual_compute, bool pin_threads,
                                  double deadline_s, const std::optional<std::pair<int, std::string>>& process,
                                  const std::string& rank_zero, int local_rank, int local_size) {
  executor::CommunicatorOptions options;
  options.world_size = ranks;
  options.link = unwrap(executor::parse_link(link));
  if (virtual_compute) options.virtual_compute = unwrap(executor::parse_virtual_compute(*virtual_compute));
  options.pin_threads = pin_threads;
  options.deadline = deadline_of(deadline_s);
  if (rank_zero.empty() && (local_rank != 0 || local_size != 0))
    throw Failure({ErrorCode::InvalidSpec, "rank_zero",
                   "is missing, but local_rank or local_size is given, which worlds of several hosts have"});
  if (process)
    options.process = executor::ProcessPlace{.rank = process->first,
                                             .key = process->second,
                                             .address = rank_zero,
                                             .local_rank = local_rank,
                                             .local_size = local_size};
  else if (!rank_zero.empty())
    throw Failure({ErrorCode::InvalidSpec, "rank_zero", "is for worlds of one process a rank; give process, too"});
  const py::gil_scoped_release released; // opening may wait for other ranks
  return std::make_shared<World>(backend, options);
}

py::class_<World, std::shared_ptr<World>> bind_world(py::module_& module) {
  py::class_<World, std::shared_ptr<World>> world(
      module, "Communicator",
      "The ranks of a job that this process holds: all of them or, with process=(rank, key), one. Only one\n"
      "thread at a time may run on it.\n"
      "ranks            how many ranks the job has\n"
      "backend          \"host\", \"mpi\" or \"cuda\"; mc2.backends() says which of them can run here\n"
      "link             host: \"shm\", or an emulated link, e.g. \"2.5Gbit,20us\" or \"tcp:2.5Gbit\"\n"
      "virtual_compute  host: ranks sleep as long as such a device would compute, e.g. \"90Gflops,10us\"\n"
      "pin_threads      host and mpi: whether threads stay on cores of their rank\n"
      "deadline_s       a run that takes longer ends with mc2.NativeError\n"
      "process          cuda: (rank, key) of this process; key is the same text in all processes of the job,\n"
      "                 and in no other job\n"
      "rank_zero        \"host:port\" where rank 0 waits for the others, for jobs of several hosts. These also\n"
      "                 give local_rank and local_size: this process's number among those of its host, and\n"
      "                 how many these are");
  world
      .def(py::init(&open_world), "ranks"_a = 2, py::kw_only(), "backend"_a = "host", "link"_a = "shm",
           "virtual_compute"_a = py::none(), "pin_threads"_a = true, "deadline_s"_a = 60.0, "process"_a = py::none(),
           "rank_zero"_a = "", "local_rank"_a = 0, "local_size"_a = 0)
      .def_property_readonly(
          "backend", [](const World& w) { return w.backend().name(); },
          "Name of the backend: \"host\", \"mpi\" or \"cuda\".")
      .def_property_readonly(
          "ranks", [](const World& w) { return w.communicator().world_size(); },
          "How many ranks there are, those of other processes included.")
      .def_property_readonly(
          "fingerprint", [](const World& w) { return w.communicator().fingerprint(); },
          "The fingerprint of this machine with this backend, link and number of ranks.")
      .def_property_readonly(
          "is_virtual", [](const World& w) { return w.options().virtual_compute.has_value(); },
          "Whether the ranks sleep for modelled times instead of computing (virtual_compute).")
      .def(
          "variants", [](const World& w, const OpSpec& op) { return w.backend().variants(op, w.options()); }, "op"_a,
          "The variants of the operator that are worth measuring, the best known default first.")
      .def_property_readonly(
          "default_options", [](const World& w) { return default_options(w.communicator().fingerprint()); },
          "mc2.default_options() of this communicator's fingerprint.")
      .def("close", &World::close,
           "Ends the use of the communicator: later calls on it, and runs of what was prepared on it, raise\n"
           "mc2.Error (invalid_spec). Its threads and memory are freed with the last object that uses them.")
      .def("__enter__", [](const std::shared_ptr<World>& w) { return w; })
      .def("__exit__", [](World& w, const py::args&) { w.close(); });
  return world;
}

std::string table_of(const RunRecord& record) {
  std::vector<std::vector<std::string>> rows{{"rank", "lane", "blocks, us"}};
  for (const auto& rank : record.ranks)
    for (const auto& [name, lane] :
         {std::pair("compute", &rank.compute), std::pair("communication", &rank.communication)}) {
      const auto block_text = [](const auto& block) { return us_text(block.first) + " to " + us_text(block.second); };
      rows.push_back({std::to_string(rank.rank), name, list_text(to_us(*lane), block_text)});
    }
  return html_table(rows);
}

void bind_records(py::module_& module) {
  py::class_<executor::RankTimes>(
      module, "RankTimes",
      "When the lanes of one rank worked: (start, end) in us for each block. local is the matmul of the\n"
      "rank's own shard, (0, 0) for kinds without a local part.")
      .def_readonly("rank", &executor::RankTimes::rank, "The number of the rank.")
      .def_property_readonly(
          "compute", [](const executor::RankTimes& t) { return to_us(t.compute); },
          "(start, end) in us of each block on the compute lane; all 0 in runs without this lane.")
      .def_property_readonly(
          "communication", [](const executor::RankTimes& t) { return to_us(t.communication); },
          "(start, end) in us of each block on the communication lane; all 0 in runs without this lane.")
      .def_property_readonly(
          "local", [](const executor::RankTimes& t) { return SpanUs(to_us(t.local.start), to_us(t.local.end)); },
          "(start, end) in us of the matmul of the rank's own shard.");
  py::class_<RunRecord>(
      module, "RunRecord",
      "The times of one run. makespan_us is from the first start to the last end over this process's ranks;\n"
      "wall_us is how long the caller waited.")
      .def_property_readonly(
          "makespan_us", [](const RunRecord& r) { return to_us(r.makespan); },
          "From the first start to the last end, in us.")
      .def_property_readonly(
          "wall_us", [](const RunRecord& r) { return to_us(r.wall); }, "How long the caller waited, in us.")
      .def_readonly("ranks", &RunRecord::ranks, "The times of this process's ranks; backend cuda: of all ranks.")
      .def("_repr_html_", &table_of);
}

/// An output of the last run: a list with the arrays of all ranks.
py::object result_of(const Binding& run, const char* name) {
  if (!py::isinstance<py::dict>(run.kept()))
    throw Failure({ErrorCode::Unsupported, name, "the matrices of a random problem stay where they are"});
  if (!run.kept().contains(name))
    throw Failure({ErrorCode::Unsupported, name, "does not exist; the operator has no norm"});
  return run.kept()[name].cast<py::object>();
}

py::class_<Binding> bind_runs(py::module_& module) {
  bind_records(module);
  py::class_<Binding> prepared(module, "Prepared", "A plan bound to memory, ready to run any number of times.");
  prepared
      .def("run", &Binding::run, "mode"_a = "fused", "with_stages"_a = true, NoGil(),
           "Runs once on all ranks of this process, and returns the times. Collective over processes. mode:\n"
           "fused           both lanes, as the plan says\n"
           "serial          one lane after the other; with an uncut plan, as a program without mc2 does\n"
           "serial_compute  the compute lane of serial alone\n"
           "compute         the matmuls of all blocks alone\n"
           "communication   the collectives of all blocks alone\n"
           "independent     both lanes at once on separate data, to measure how they slow each other; needs\n"
           "                allow_independent=True of prepare()\n"
           "Results are complete after fused and serial runs only.\n"
           "with_stages=False times only the whole run; times of blocks may then be 0. Timing the blocks slows\n"
           "a fused run on some devices.\n"
           "Raises mc2.Error for an unknown mode (unknown_name), or if the communicator is closed or runs in\n"
           "another thread (invalid_spec). Raises mc2.NativeError if a rank fails or the deadline passes; then\n"
           "every later run on the communicator fails, too.")
      .def_property_readonly("op", &Binding::op, "The operator of the plan.")
      .def_property_readonly(
          "c", [](const Binding& self) { return result_of(self, "c"); },
          "The result arrays of the ranks, as the last run left them.")
      .def_property_readonly(
          "normed", [](const Binding& self) { return result_of(self, "normed"); },
          "The arrays with the normalised rows of the ranks' results, as the last run left them.");
  py::class_<Problem>(module, "Problem", "Random matrices of an operator in memory of a communicator's ranks.")
      .def(
          "prepare",
          [](const py::object& self, std::variant<std::vector<std::int64_t>, Plan> blocks,
             const std::optional<Variant>& variant) {
            auto& problem = self.cast<Problem&>();
            const auto* plan = std::get_if<Plan>(&blocks);
            if (plan != nullptr && variant)
              throw Failure({ErrorCode::InvalidSpec, "variant",
                             "is for blocks; a plan has its own, and Plan.with_variant() gives it another"});
            if (plan != nullptr) return problem.prepare(self, *plan);
            return problem.prepare(self, std::get<std::vector<std::int64_t>>(std::move(blocks)), variant);
          },
          "blocks"_a, "variant"_a = py::none(),
          "Prepares a plan, or blocks with a variant. variant None: the first of Communicator.variants(), or the\n"
          "plan's own.")
      .def(
          "verify",
          [](const py::object& self, Binding& prepared, std::vector<std::int64_t> blocks) {
            auto& problem = self.cast<Problem&>();
            if (!prepared.kept().is(self))
              throw Failure({ErrorCode::InvalidSpec, "prepared",
                             "is of another problem; needs what prepare() of this one returned"});
            const py::gil_scoped_release released;
            return problem.verify(prepared, std::move(blocks));
          },
          "prepared"_a, "blocks"_a,
          "Puts new numbers into A, runs `prepared`, which this problem prepared for these blocks, and compares\n"
          "the result with an oracle; with virtual_compute, what was exchanged. Returns the finding in words.\n"
          "Raises mc2.Error with code mismatch if the result is wrong, and with invalid_spec if `prepared` is of\n"
          "another problem.");
  return prepared;
}

/// A bench on a communicator. Each call takes the communicator's turn, so that nothing else runs on it meanwhile.
class WorldBench final : public profiler::Bench {
  template <typename Body>
  auto in_turn(const Body& body) {
    const World::Turn turn(*world_);
    return body();
  }

 public:
  WorldBench(std::shared_ptr<World> world, std::unique_ptr<embed::PreparedBench> bench)
      : Bench({bench->op(),
               bench->fingerprint(),
               {bench->variants().begin(), bench->variants().end()},
               bench->variants_share_matmul()}),
        world_(std::move(world)),
        bench_(std::move(bench)) {}

  [[nodiscard]] Result<std::size_t> prepare(const Plan& plan) override {
    return in_turn([&] { return bench_->prepare(plan); });
  }
  [[nodiscard]] Result<void> verify(const Plan& plan) override {
    return in_turn([&] { return bench_->verify(plan); });
  }
  [[nodiscard]] double time_us(std::size_t prepared, profiler::RunPart part) override {
    return in_turn([&] { return bench_->time_us(prepared, part); });
  }
  [[nodiscard]] Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one,
                                                       const Variant& variant) override {
    auto measure = in_turn([&] { return bench_->prepare_case(one, variant); });
    if (!measure) return measure;
    return profiler::Measure([this, measure = std::move(measure).value()] { return in_turn(measure); });
  }
  [[nodiscard]] std::chrono::steady_clock::time_point now() override { return bench_->now(); }
  [[nodiscard]] std::string date() override { return bench_->date(); }

 protected:
  void release(const Variant& variant) override {
    std::vector<Variant> others(bench_->variants().begin(), bench_->variants().end());
    std::erase(others, variant);
    bench_->keep_variants(std::move(others));
  }

 private:
  std::shared_ptr<World> world_; ///< outlives the bench
  std::unique_ptr<embed::PreparedBench> bench_;
};

/// A bench on one rank's matrices, given by address, in a world of processes. Only the caller can check results.
class AddressBench final : public embed::PreparedBench {
 public:
  /// @param check  gets a function that runs the plan; it calls that function and raises if the result is wrong
  AddressBench(profiler::BenchFacts facts, executor::Communicator& communicator, const Addresses& addresses,
               py::object keep_alive, py::function check)
      : PreparedBench(std::move(facts), communicator),
        buffers_{buffers_at(op(), addresses, false)},
        keep_alive_(std::move(keep_alive)),
        check_(std::move(check)) {}
  ~AddressBench() override {
    clear();
    const py::gil_scoped_acquire acquired;
    keep_alive_ = py::object();
    check_ = py::function();
  }

  [[nodiscard]] Result<void> verify(const Plan& plan) override {
    MC2_ASSIGN(auto prepared, ready(plan));
    const py::gil_scoped_acquire acquired;
    check_(py::cpp_function([run = prepared] {
      const py::gil_scoped_release released;
      run->run(executor::RunMode::Fused);
    }));
    return {};
  }

 private:
  [[nodiscard]] std::span<const executor::RankBuffers> buffers() const override { return buffers_; }

  std::array<executor::RankBuffers, 1> buffers_;
  py::object keep_alive_;
  py::function check_;
};

std::unique_ptr<WorldBench> random_bench(const std::shared_ptr<World>& world, const OpSpec& op, std::uint64_t seed) {
  const World::Turn turn(*world);
  return std::make_unique<WorldBench>(
      world, unwrap(embed::Workbench::on(world->communicator(), world->backend(), world->options(), op, seed)));
}

std::unique_ptr<WorldBench> bench_at(const std::shared_ptr<World>& world, const OpSpec& op, const Addresses& addresses,
                                     py::object keep_alive, py::function check) {
  auto& communicator = world->communicator();
  if (communicator.local_ranks().size() != 1) throw Failure(not_one_rank());
  auto facts = unwrap(embed::bench_facts(communicator, world->backend(), world->options(), op));
  return std::make_unique<WorldBench>(world, std::make_unique<AddressBench>(std::move(facts), communicator, addresses,
                                                                            std::move(keep_alive), std::move(check)));
}

void bind_benches(py::module_& module, py::class_<World, std::shared_ptr<World>>& world) {
  py::class_<WorldBench, profiler::Bench>(module, "CommunicatorBench",
                                          "A bench that runs and times an operator on a communicator.");
  world
      .def(
          "random_problem",
          [](const std::shared_ptr<World>& w, const OpSpec& op, std::uint64_t seed) {
            return std::make_unique<Problem>(w, op, seed);
          },
          "op"_a, "seed"_a = 1,
          "Random matrices of the operator, in memory of the ranks. Equal seeds give equal matrices. Raises\n"
          "mc2.Error if the backend cannot run the operator, the operator has another number of ranks, or\n"
          "another process holds some of the ranks.")
      .def("bench", &random_bench, "op"_a, "seed"_a = 1, NoGil(),
           "A bench with random matrices, for mc2.tune_on(), mc2.profile_on() and mc2.race_on().")
      .def("bench_at", &bench_at, "op"_a, "addresses"_a, "keep_alive"_a, "check"_a,
           "A bench on the matrices of this process's only rank. addresses are those of prepare_at(); keep_alive\n"
           "owns the memory. To check a plan, the bench calls check(run). This function calls run() and raises if\n"
           "the result is wrong. Collective, and so is every use of the bench.");
}

void bind_backends(py::module_& module) {
  module.def(
      "fingerprint",
      [](const std::string& backend, int ranks, int local_size) {
        executor::CommunicatorOptions options;
        options.world_size = ranks;
        if (local_size != 0) // a place that only tells of several hosts; no process is contacted
          options.process =
              executor::ProcessPlace{.rank = 0, .key = "none", .address = "none:1", .local_size = local_size};
        unwrap(options.validate());
        return unwrap(executor::find_backend(backend))->fingerprint(options);
      },
      "backend"_a, "ranks"_a, "local_size"_a = 0,
      "The fingerprint that a communicator with this backend and number of ranks would have. local_size: the\n"
      "number of ranks on each host, if there are several hosts; 0: one host.");
  module.def(
      "backends",
      [](int local_size) {
        std::vector<std::tuple<std::string, bool, std::string>> result;
        for (const auto* backend : executor::backend_registry()) {
          const auto found = backend->availability(local_size);
          result.emplace_back(std::string(backend->name()), found.is_available, found.reason);
        }
        return result;
      },
      "local_size"_a = 2,
      "Every backend of this build: (name, whether it can run local_size ranks on this machine, reason).");
}

} // namespace
} // namespace mc2::python

PYBIND11_MODULE(_executor, module) {
  using namespace mc2;
  python::begin_module(module, "Running plans on this machine's backends.");
  auto world = python::bind_world(module);
  auto prepared = python::bind_runs(module);
  python::bind_addresses(world, prepared);
  python::bind_benches(module, world);
  python::bind_arrays(module, world);
  python::bind_backends(module);
  python::bind_collectives(module);
}
