#include "peers.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string_view>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "options/numbers.hpp"
#include "options/shapes.hpp"
#include "overlap_chart.hpp"
#include "pages/image_file.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "peer_table.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The argument quoted for a shell.
std::string shell_word(const std::string& argument) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=/.,:@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The command line of this process.
std::string command_line() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string argument; std::getline(stream, argument, '\0');)
    text += (text.empty() ? "" : " ") + shell_word(argument);
  return text;
}

/// Errors: UnknownName.
Result<std::set<planner::OpKind>> parse_kinds(const std::string& names) {
  std::set<planner::OpKind> kinds;
  std::istringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) {
    const auto kind = planner::parse_op_kind(name);
    if (!kind) return Error{kind.error().code, "--ops", kind.error().message};
    kinds.insert(kind.value());
  }
  return kinds;
}

std::string turn_text(const PeerRace& shape) {
  if (shape.error) return "failed: " + shape.error->text();
  std::string text = "serial " + time_text(shape.serial_us()) + ", mc2 " + time_text(shape.mc2_us());
  for (const auto& [name, us] : shape.torch.form_us) text += ", torch " + name + " " + time_text(median(us));
  return text + " (" + std::to_string(static_cast<int>(shape.whole_s + 0.5)) + " s)";
}

/// The chart's rows; empty where no shape has finished its turn.
std::vector<OverlapRow> chart_rows(const PeerRun& run) {
  std::vector<OverlapRow> rows;
  for (const auto& shape : run.shapes) {
    if (shape.error) continue;
    OverlapRow& row = rows.emplace_back(
        OverlapRow{shape.op, shape.serial_us(), ideal_us(shape.race), shape.speedup().value, std::nullopt});
    if (const std::string peer = shape.torch.peer(); !peer.empty()) row.peer_over_mc2 = shape.torch.ratio(peer).value;
  }
  return rows;
}

} // namespace

void PeersBench::add_to(CLI::App& app) {
  app.add_option("--backend", machine.backend, "what runs the plans; `mc2 doctor` lists them")->capture_default_str();
  app.add_option("--link", machine.link, "of the host backend, as in mc2 tune")->capture_default_str();
  app.add_option("--deadline", machine.deadline_s, "abort a run that takes longer, in seconds")
      ->capture_default_str()
      ->check(real_number(0.001, 86'400));
  app.add_option("--shapes", shapes_file, "CSV file, most important shapes first (columns m,n,k[,op,dtype,ranks])")
      ->capture_default_str();
  app.add_option("--ops", ops, "operator kinds to run, with commas between (default: all of the file)");
  app.add_option("--ranks", ranks, "ranks of every shape, instead of the file's; m, n and k stay")
      ->check(whole_number(2, planner::kMaxWorldSize));
  app.add_option("--budget", budget_s, "seconds to tune each shape in")
      ->capture_default_str()
      ->check(real_number(0.1, 86'400));
  app.add_option("--time-limit", time_limit_s, "seconds after which no new shape starts (default: none)")
      ->check(real_number(0, 86'400));
  app.add_option("--store", store_path, "keep profiles and plans in this store (default: nowhere)");
  app.add_option("--json", json_file, "also write everything into this file, after every shape");
  app.add_option("--chart", chart_file, "also draw every shape's times beside its serial's to this .svg or .png file");
  app.add_option("--table", table_file, "only draw --chart, of results that are kept as CSV: data/gpu/peers_x4.csv");
  app.add_option("--torch", torch, "auto: python3 if it has PyTorch; off; or an interpreter that has it")
      ->capture_default_str();
  app.footer("Example:\n  mc2-bench peers --backend cuda --shapes data/gpu_shapes.csv --json peers.json");
}

Result<std::vector<planner::OpSpec>> PeersBench::shapes() const {
  MC2_ASSIGN(const auto kinds, parse_kinds(ops));
  MC2_ASSIGN(const auto content, read_file(shapes_file));
  MC2_ASSIGN(auto parsed, parse_shapes(content, shapes_file, OpOptions{}));
  std::vector<planner::OpSpec> result;
  for (planner::OpSpec op : parsed) {
    if (!kinds.empty() && !kinds.contains(op.kind)) continue;
    if (ranks) op.world_size = *ranks;
    if (auto legal = op.validate(); !legal) return Error{legal.error().code, "--ranks", legal.error().text()};
    result.push_back(op);
  }
  if (result.empty()) return Error{ErrorCode::InvalidSpec, "--ops", shapes_file + " has no shape of " + ops};
  return result;
}

Result<PeerRace> PeersBench::race_one(const planner::OpSpec& op, store::Store& store, TorchSeat& seat) const {
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(op.world_size));
  const auto settings = bench_settings(0.1 * budget_s, backend->name());
  PeerArena arena{*backend, options, settings, settings.race, store, seat};
  // This budget covers the profile, which takes most of it, and up to three races. The final race comes after it.
  arena.tune.budget = planner::to_ms(budget_s);
  arena.race.min_rounds = 21;
  try {
    return race_peers(op, arena);
  } catch (const SystemError& error) { // the next shapes can still run, each with a communicator of its own
    return Error{ErrorCode::Unsupported, "system", error.what()};
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::Unsupported, "memory", "out of memory; try a smaller m, n or k"};
  }
}

void PeersBench::race_all(const std::vector<planner::OpSpec>& list, store::Store& store, TorchSeat& seat,
                          PeerRun& run) const {
  const auto start = Clock::now();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool is_late = time_limit_s && Clock::now() - start > planner::to_ms(*time_limit_s);
    if (is_late || is_interrupted()) {
      run.left_out.push_back(list[i]);
      continue;
    }
    std::cerr << "mc2: shape " << i + 1 << " of " << list.size() << ": " << list[i].text() << "\n";
    auto raced = race_one(list[i], store, seat);
    PeerRace& shape = run.shapes.emplace_back(raced ? std::move(raced).value() : PeerRace{});
    shape.op = list[i];
    if (!raced) shape.error = raced.error();
    std::cerr << "mc2: shape " << i + 1 << " of " << list.size() << ": " << turn_text(shape) << "\n";
    run.software = seat.software();
    run.torch_reason = seat.software().empty() ? seat.reason() : "";
    if (json_file) write_file(*json_file, peer_document(run));
  }
}

Result<ExitCode> PeersBench::draw_table() const {
  if (chart_file.empty()) return Error{ErrorCode::InvalidSpec, "--table", "is drawn into --chart; name that file, too"};
  MC2_TRY(check_output("--chart", chart_file, {table_file}));
  MC2_ASSIGN(const auto content, read_file(table_file));
  MC2_ASSIGN(const auto rows, read_peer_table(content, table_file));
  MC2_ASSIGN(auto chart, ImageFile::open(chart_file, "--chart"));
  const bool has_peer = std::ranges::any_of(rows, [](const OverlapRow& row) { return row.peer_over_mc2.has_value(); });
  const std::string machine = machine_of_table(content);
  chart.write(overlap_chart(
      std::string("mc2 beside serial") + (has_peer ? " and PyTorch" : "") + (machine.empty() ? "" : ", " + machine),
      "PyTorch", rows));
  return ExitCode::Success;
}

Result<ExitCode> PeersBench::run() const {
  if (!table_file.empty()) return draw_table();
  MC2_TRY(check_output("--json", json_file.value_or(""), {shapes_file}));
  std::optional<ImageFile> chart;
  if (!chart_file.empty()) {
    if (json_file && std::filesystem::weakly_canonical(*json_file) == std::filesystem::weakly_canonical(chart_file))
      return Error{ErrorCode::InvalidSpec, "--chart", "is the file of --json, too; name another file"};
    MC2_ASSIGN(auto opened, ImageFile::open(chart_file, "--chart"));
    MC2_TRY(check_output("--chart", chart_file, {shapes_file}));
    chart = std::move(opened);
  }
  MC2_ASSIGN(const auto list, shapes());
  MC2_ASSIGN(const auto backend, machine.find());
  for (const auto& op : list) {
    MC2_TRY(machine.communicator_options(op.world_size));
  }
  ScratchStore scratch;
  MC2_ASSIGN(auto store,
             store_path.empty() ? scratch.open() : store::Store::open(store_path, store::OpenMode::ReadWrite));
  const int rank_count = list.front().world_size;
  TorchSeat seat = torch == "off" ? TorchSeat("", rank_count, "left out by --torch off")
                                  : TorchSeat(torch == "auto" ? "python3" : torch, rank_count, "");
  PeerRun run;
  run.command = command_line();
  run.started_at = utc_now();
  run.fingerprint = backend->fingerprint(machine.communicator_options(rank_count).value());
  race_all(list, store, seat, run);
  std::cout << peer_page(run);
  if (json_file) write_file(*json_file, peer_document(run));
  if (const auto rows = chart_rows(run); chart && !rows.empty())
    chart->write(overlap_chart("mc2 beside serial" + std::string(run.torch_reason.empty() ? " and PyTorch" : "") +
                                   ", " + run.fingerprint.label(),
                               "PyTorch", rows));
  if (is_interrupted()) return Error{ErrorCode::Cancelled, "peers", "interrupted; the shapes before it are printed"};
  for (const auto& shape : run.shapes)
    if (shape.error) return Error{shape.error->code, shape.op.text(), shape.error->text()};
  return ExitCode::Success;
}

} // namespace mc2::cli
