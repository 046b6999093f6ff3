#include "pages/html.hpp"

#include "pages/html_style.hpp"

namespace mc2::cli {

using render::Markup;

Markup html_report(const std::string& title, const planner::Fingerprint& machine) {
  constexpr std::size_t kLongestLabel = 300;
  Markup out;
  out.open("html", {{"lang", "en"}}).open("head").leaf("meta", {{"charset", "utf-8"}});
  out.leaf("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  out.leaf("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  out.element("title", {}, "mc2: " + title).style(kReportStyle).close();
  out.open("body").open("main").element("h1", {}, title);
  out.element("p", {{"class", machine.is_emulated() ? "machine emulated" : "machine"}},
              render::clipped(machine.label(), kLongestLabel));
  return out;
}

std::string html_text(Markup report) {
  report.close().close().close();
  return "<!DOCTYPE html>\n" + report.str();
}

void paragraph(Markup& out, const std::string& text) {
  if (!text.empty()) out.element("p", {}, text);
}

void plot(Markup& out, const Markup& chart) { out.open("div", {{"class", "plot"}}).add(chart).close(); }

void legend(Markup& out, std::initializer_list<Swatch> swatches) {
  out.open("p", {{"class", "legend"}});
  for (const auto& [style, meaning] : swatches) {
    out.open("span");
    out.open("svg", {{"width", "18"}, {"height", "12"}, {"viewBox", "0 0 18 12"}, {"aria-hidden", "true"}});
    const std::string name = style;
    if (name == "alone" || name == "corun" || name == "change")
      out.leaf("circle", {{"class", name}, {"cx", "9"}, {"cy", "6"}, {"r", "3.5"}});
    else if (name == "outlier")
      out.leaf("path", {{"class", name}, {"d", "M5 2L13 10M5 10L13 2"}});
    else if (name == "fit" || name == "slowed" || name == "lineone" || name == "linetwo")
      out.leaf("line", {{"class", name}, {"x1", "0"}, {"y1", "6"}, {"x2", "18"}, {"y2", "6"}});
    else if (name == "blocksize" || name == "today")
      out.leaf("line", {{"class", name}, {"x1", "9"}, {"y1", "0"}, {"x2", "9"}, {"y2", "12"}});
    else
      out.leaf("rect", {{"class", name}, {"x", "0"}, {"y", "0"}, {"width", "18"}, {"height", "12"}});
    out.close().text(meaning).close();
  }
  out.close();
}

void html_table(Markup& out, const Cells& cells) {
  out.open("div", {{"class", "plot"}}).open("table");
  for (std::size_t row = 0; row < cells.size(); ++row) {
    out.open("tr");
    for (const auto& cell : cells[row]) out.element(row == 0 ? "th" : "td", {}, cell);
    out.close();
  }
  out.close().close();
}

void facts_table(Markup& out, const Facts& facts) {
  out.open("table", {{"class", "facts"}});
  for (const auto& [name, value] : facts)
    out.open("tr").element("th", {{"scope", "row"}}, name).element("td", {}, value).close();
  out.close();
}

void card(Markup& out, const std::string& name, const std::string& value, const std::string& detail) {
  out.open("div", {{"class", "card"}});
  out.element("div", {{"class", "name"}}, name).element("div", {{"class", "value"}}, value);
  out.element("div", {{"class", "detail"}}, detail).close();
}

} // namespace mc2::cli
