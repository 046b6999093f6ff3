#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>

#include "commands/commands.hpp"
#include "kept_plan.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/timeline_chart.hpp"
#include "mc2/render/trace.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/exporter.hpp"
#include "neighbour_loss.hpp"
#include "options/model_file.hpp"
#include "options/number_list.hpp"
#include "options/numbers.hpp"
#include "pages/explain_evidence.hpp"
#include "pages/explain_html.hpp"
#include "pages/image_file.hpp"

namespace mc2::cli {
namespace {

constexpr std::int64_t kMaxTableRows = 10'000;
constexpr std::array<std::string_view, 4> kPictures{"html", "svg", "png", "trace"};

struct ExportCommand {
  StoreOptions store;
  std::vector<std::string> plans;
  std::string format, out, model_file, rows;
  store::ExportOptions options;
  std::optional<std::int64_t> m;
  bool reads_back = false;

  [[nodiscard]] Result<std::vector<store::ExportItem>> load_items(const std::optional<planner::CostModel>& model) const;
  /// The document of `mc2 plan --m first:last`, if the named file holds one.
  [[nodiscard]] Result<std::optional<planner::PlanRanges>> load_ranges() const;
  /// The plan for a format that takes exactly one.
  [[nodiscard]] Result<store::StoredPlan> load_one(const std::optional<planner::CostModel>& model) const;
  [[nodiscard]] Error not_one(std::size_t count) const;
  [[nodiscard]] Result<ExitCode> write_text(const std::string& text) const;
  [[nodiscard]] Result<ExitCode> write_document(const store::Exporter& exporter) const;
  [[nodiscard]] Result<std::optional<ImageFile>> open_image() const;
  [[nodiscard]] Result<ExitCode> write_picture() const;
  [[nodiscard]] Result<ExitCode> read_back() const;
  [[nodiscard]] Result<void> check_options() const;
  [[nodiscard]] Result<ExitCode> run() const;
};

/// Plans made from the model, one for every m. Errors: as finder::plan_given.
Result<std::vector<store::ExportItem>> plans_for(const planner::CostModel& model,
                                                 const std::vector<std::int64_t>& all_m) {
  std::vector<store::ExportItem> items;
  for (const std::int64_t m : all_m) {
    planner::OpSpec op = model.op;
    op.m = m;
    MC2_ASSIGN(auto plan, finder::plan_given(model, {.op = op, .machine = {}}));
    items.push_back({std::move(plan)});
  }
  return items;
}

Result<std::vector<store::ExportItem>> ExportCommand::load_items(const std::optional<planner::CostModel>& model) const {
  if (!rows.empty()) {
    if (!model || !plans.empty())
      return Error{ErrorCode::InvalidSpec, "--rows", "makes plans with a model: give --model, and no PLAN"};
    MC2_ASSIGN(const auto all_m, parse_number_list(rows, "--rows", {1, planner::kMaxSize, kMaxTableRows}));
    return plans_for(*model, all_m);
  }
  if (plans.empty())
    return Error{ErrorCode::InvalidSpec, "PLAN",
                 "is missing; give plan files or digests of kept plans, or --model with --rows"};
  std::vector<store::ExportItem> items;
  for (const auto& name : plans) {
    MC2_ASSIGN(auto stored, load_predicted_plan(name, "PLAN", store));
    items.push_back({std::move(stored).plan});
  }
  return items;
}

Error ExportCommand::not_one(std::size_t count) const {
  return {ErrorCode::InvalidSpec, rows.empty() ? "PLAN" : "--rows",
          "the format " + format + " holds one plan; give one" + (rows.empty() ? "" : " m") + ", not " +
              std::to_string(count)};
}

Result<store::StoredPlan> ExportCommand::load_one(const std::optional<planner::CostModel>& model) const {
  if (rows.empty() && plans.size() == 1) return load_predicted_plan(plans.front(), "PLAN", store);
  MC2_ASSIGN(auto items, load_items(model));
  if (items.size() != 1) return not_one(items.size());
  return finder::unkept(std::move(items.front().plan));
}

Result<ExitCode> ExportCommand::write_text(const std::string& text) const {
  print_or_write(out, text);
  return ExitCode::Success;
}

Result<std::optional<planner::PlanRanges>> ExportCommand::load_ranges() const {
  if (plans.size() != 1 || !file_exists(plans.front())) return std::optional<planner::PlanRanges>();
  MC2_ASSIGN(const auto content, read_file(plans.front()));
  // Any other document is read as a plan later.
  if (!store::schema_of(content).starts_with("mc2.plan_ranges/")) return std::optional<planner::PlanRanges>();
  auto ranges = store::decode_plan_ranges(content);
  if (!ranges) return document_error(plans.front(), ranges.error());
  return std::optional(std::move(ranges).value());
}

Result<ExitCode> ExportCommand::write_document(const store::Exporter& exporter) const {
  MC2_ASSIGN(const auto ranges, load_ranges());
  if (ranges) {
    for (const auto& [is_given, option] : {std::pair(!rows.empty(), "--rows"), {!model_file.empty(), "--model"}})
      if (is_given)
        return Error{ErrorCode::InvalidSpec, option, "is not used with a document of ranges of m; leave it out"};
    if (exporter.write_ranges == nullptr)
      return Error{ErrorCode::Unsupported, "--format",
                   format + " holds plans of one m each, not ranges of m; use ascendc, csv or markdown"};
    MC2_ASSIGN(const auto text, exporter.write_ranges(*ranges));
    return write_text(text);
  }
  MC2_ASSIGN(const auto model, read_model_if_named(model_file));
  MC2_ASSIGN(auto items, load_items(model));
  if (!exporter.takes_many && items.size() > 1) return not_one(items.size());
  auto& sorted = items;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.plan.op < b.plan.op; });
  if (model && exporter.takes_many)
    MC2_TRY(add_neighbour_losses(sorted, *model, planner::default_options_on(model->fingerprint)));
  MC2_ASSIGN(const auto text, exporter.write(sorted, options));
  return write_text(text);
}

/// The PNG file to write; none for another format. Errors: as ImageFile::open(); InvalidSpec if the name belongs to the
/// other format.
Result<std::optional<ImageFile>> ExportCommand::open_image() const {
  const bool is_png = format == "png", is_named_png = std::filesystem::path(out).extension() == ".png";
  if (is_png && !is_named_png)
    return Error{ErrorCode::InvalidSpec, "--out",
                 (out.empty() ? "is missing" : "is '" + out + "'") + std::string("; name a file that ends in .png")};
  if (!is_png && is_named_png)
    return Error{ErrorCode::InvalidSpec, "--out",
                 "is '" + out + "', but the format is " + format + "; give --format png"};
  if (!is_png) return std::optional<ImageFile>();
  MC2_ASSIGN(auto image, ImageFile::open(out, "--out"));
  return std::optional(std::move(image));
}

Result<ExitCode> ExportCommand::write_picture() const {
  MC2_ASSIGN(const auto image, open_image());
  MC2_ASSIGN(auto model, read_model_if_named(model_file));
  MC2_ASSIGN(const auto stored, load_one(model));
  const planner::Plan& plan = stored.plan;
  Evidence evidence = evidence_of(stored);
  evidence.model = std::move(model);
  if (auto layers = store.open(StoreUse::Read)) look_up(evidence, plan, layers.value());
  drop_foreign(evidence, plan);
  const auto made_from = model_of_plan(evidence);
  MC2_ASSIGN(const auto explained,
             planner::explain(plan, made_from ? &*made_from : nullptr, planner::likely_limits(plan)));
  if (format == "trace") return write_text(render::chrome_trace(plan, {}, plan.fingerprint));
  if (format == "html") return write_text(explain_html(explained, evidence));
  const auto curves = curve_evidence(plan, evidence);
  // A report shows its notes. An image cannot, so standard error says why a model's curves are missing.
  if (!model_file.empty() && curves.empty())
    for (const auto& note : evidence.notes) std::cerr << "mc2: note: " << note << "\n";
  std::vector<render::Markup> charts;
  charts.reserve(curves.size());
  for (const auto& curve : curves) charts.push_back(curve_chart(curve));
  const std::string svg = render::plan_drawing(explained, charts);
  if (!image) return write_text(svg);
  image->write(svg);
  return ExitCode::Success;
}

Result<ExitCode> ExportCommand::read_back() const {
  if (plans.size() != 1) return Error{ErrorCode::InvalidSpec, "PLAN", "--read takes one exported file"};
  const std::string lost = format + " does not hold the plan: it cannot be read back";
  if (std::ranges::find(kPictures, format) != std::end(kPictures))
    return Error{ErrorCode::Unsupported, "--format", lost};
  MC2_ASSIGN(const auto exporter, store::find_exporter(format));
  if (!exporter->read) return Error{ErrorCode::Unsupported, "--format", lost};
  MC2_ASSIGN(const auto content, read_file(plans.front()));
  auto items = exporter->read(content);
  if (!items) return document_error(plans.front(), items.error());
  std::erase_if(items.value(), [&](const store::ExportItem& item) { return m && item.plan.op.m != *m; });
  if (items.value().size() == 1) {
    const planner::Plan& plan = items.value().front().plan;
    if (plan.makespan.us == 0) std::cerr << "mc2: note: " << plan.reason << "; nothing is predicted\n";
    return write_text(store::pretty(store::encode(plan)));
  }
  if (items.value().empty())
    return Error{ErrorCode::NotFound, "--m", "the file holds no plan of m=" + std::to_string(m.value_or(0))};
  const std::string count = std::to_string(items.value().size()) + " plans";
  if (m)
    return Error{ErrorCode::InvalidSpec, plans.front(),
                 "holds " + count + " of m=" + std::to_string(*m) + "; leave one"};
  return Error{ErrorCode::InvalidSpec, "--m", "is missing: the file holds " + count};
}

/// Errors: InvalidSpec naming an option that this format, or --read, does not use.
Result<void> ExportCommand::check_options() const {
  const bool is_nccl = format == "nccl-tuner", has_algorithm = is_nccl || format == "hccl-tuner";
  const std::string made =
      "cannot be combined with --read, which turns an exported file back into a plan; leave one of them out";
  if (m && !reads_back)
    return Error{ErrorCode::InvalidSpec, "--m",
                 "says which plan of a table --read takes; leave it out, or give --read"};
  if (reads_back && !rows.empty()) return Error{ErrorCode::InvalidSpec, "--rows", made};
  if (reads_back && !model_file.empty()) return Error{ErrorCode::InvalidSpec, "--model", made};
  if (!options.algorithm.empty() && !has_algorithm)
    return Error{ErrorCode::InvalidSpec, "--algorithm",
                 "belongs to nccl-tuner and hccl-tuner, not to " + format + "; leave it out"};
  for (const auto& [is_given, option] :
       {std::pair(!options.protocol.empty(), "--protocol"), {options.channels.has_value(), "--channels"}})
    if (is_given && !is_nccl)
      return Error{ErrorCode::InvalidSpec, option, "belongs to nccl-tuner, not to " + format + "; leave it out"};
  return {};
}

Result<ExitCode> ExportCommand::run() const {
  MC2_TRY(check_options());
  std::vector<std::string> read = plans;
  read.push_back(model_file);
  MC2_TRY(check_output("--out", out, read));
  if (reads_back) return read_back();
  if (std::ranges::find(kPictures, format) != kPictures.end()) return write_picture();
  const auto exporter = store::find_exporter(format);
  if (!exporter)
    return Error{exporter.error().code, exporter.error().field, exporter.error().message + ", " + list_text(kPictures)};
  return write_document(*exporter.value());
}

} // namespace

std::vector<std::string> export_formats() {
  std::vector<std::string> formats;
  for (const auto& exporter : store::exporter_registry()) formats.emplace_back(exporter.name);
  formats.insert(formats.end(), kPictures.begin(), kPictures.end());
  return formats;
}

Command add_export(CLI::App& app) {
  auto command = std::make_shared<ExportCommand>();
  auto* sub = app.add_subcommand("export", "write plans in the formats of other programs");
  sub->add_option("PLAN", command->plans, "plan files, or digests of kept plans; with --read an exported file");
  sub->add_option("--format", command->format, list_text(export_formats()))->required();
  sub->add_option("--out", command->out, "write to this file rather than to standard output");
  sub->add_option("--model", command->model_file,
                  "the plans' cost model, for the loss of using a neighbouring m's plan and for drawing curves");
  sub->add_option("--rows", command->rows, "plan each of these m with --model, e.g. 512:8192:512");
  sub->add_option("--algorithm", command->options.algorithm,
                  "algorithm that nccl-tuner chooses, e.g. ring, or hccl-tuner, e.g. aicpu:sole:nhr");
  sub->add_option("--protocol", command->options.protocol, "protocol that nccl-tuner chooses: ll, ll128 or simple");
  sub->add_option("--channels", command->options.channels,
                  "channels that nccl-tuner chooses for plans that name none: 1 to 64")
      ->check(whole_number(1, 64));
  sub->add_flag("--read", command->reads_back, "turn an exported file back into the plan document");
  sub->add_option("--m", command->m, "m of the plan to read from a table, with --read")
      ->check(whole_number(1, planner::kMaxSize));
  command->store.add_to(*sub);
  sub->footer(
      "Examples:\n  mc2 export plan.json --format ascendc --out tiling.h\n"
      "  mc2 export --model model.json --rows 512:8192:512 --format m-table \\\n             --out plans.json\n"
      "  mc2 export by_m.json --format ascendc --out tiling_by_m.h\n"
      "  mc2 export plan.json --format nccl-tuner --algorithm nvls --protocol simple\n"
      "  mc2 export tiling.h --format ascendc --read --out plan.json");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
