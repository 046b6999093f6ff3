#pragma once

#include <initializer_list>
#include <string>

#include "mc2/planner/fingerprint.hpp"
#include "mc2/render/markup.hpp"
#include "pages/text.hpp"

/// The parts of HTML reports. A report is one file that opens in any browser, offline, light and dark.
namespace mc2::cli {

/// A class of the style sheet, and what it means in a chart.
struct Swatch {
  const char* style;
  const char* meaning;
};

/// Begins a page with its title and machine; html_text() ends it.
[[nodiscard]] render::Markup html_report(const std::string& title, const planner::Fingerprint& machine);
[[nodiscard]] std::string html_text(render::Markup report);

void paragraph(render::Markup& out, const std::string& text);
void plot(render::Markup& out, const render::Markup& chart);
/// Says what the colours of the chart above mean.
void legend(render::Markup& out, std::initializer_list<Swatch> swatches);
void html_table(render::Markup& out, const Cells& cells);
void facts_table(render::Markup& out, const Facts& facts);
/// Shows a number in large type, with its name and a few words.
void card(render::Markup& out, const std::string& name, const std::string& value, const std::string& detail);

} // namespace mc2::cli
