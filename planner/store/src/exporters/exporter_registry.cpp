#include <array>

#include "exporters/parts.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {

// Each format in a file with its likes.
using Write = Result<std::string>(std::span<const ExportItem> items, const ExportOptions& options);
using ReadBack = Result<std::vector<ExportItem>>(std::string_view text);
using WriteRanges = Result<std::string>(const planner::PlanRanges& ranges);
Write write_ascendc, write_ascendc_lib, write_nccl_tuner, write_hccl_tuner, write_m_table, write_csv, write_markdown;
ReadBack read_ascendc, read_ascendc_lib, read_m_table, read_csv;
WriteRanges write_ascendc_ranges, write_csv_ranges, write_markdown_ranges;

namespace {

// The order is that of listings.
constexpr std::array kExporters{
    Exporter{"ascendc", "C++ that sets the tiling of the Ascend C sample", false, write_ascendc, read_ascendc,
             write_ascendc_ranges},
    Exporter{"ascendc-lib", "C++ that sets the tiling of the operator library", false, write_ascendc_lib,
             read_ascendc_lib},
    Exporter{"nccl-tuner", "CSV of NCCL's example tuner plugin", true, write_nccl_tuner, nullptr},
    Exporter{"hccl-tuner", "JSON of HCCL's example tuner plugin", true, write_hccl_tuner, nullptr},
    Exporter{"m-table", "JSON table of plans by m for one device", true, write_m_table, read_m_table},
    Exporter{"csv", "table of plans", true, write_csv, read_csv, write_csv_ranges},
    Exporter{"markdown", "table of plans", true, write_markdown, nullptr, write_markdown_ranges}};

} // namespace

std::span<const Exporter> exporter_registry() noexcept { return kExporters; }

Result<const Exporter*> find_exporter(std::string_view name) {
  return find_named(kExporters, name, &Exporter::name, "--format", "format");
}

} // namespace mc2::store
