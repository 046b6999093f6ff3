#include "mc2/render/markup.hpp"

#include <cmath>

#include "mc2/planner/error.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::render {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

/// U+FFFE and U+FFFF, the characters of three bytes that XML 1.0 forbids.
bool is_forbidden(std::string_view text) {
  return text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
}

} // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
      result += kReplacement;
    else if (is_forbidden(text.substr(i)))
      result += kReplacement, i += 2;
    else
      result += c;
  }
  return result;
}

std::string clipped(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string coordinate(double value) {
  std::string text = number(std::isfinite(value) ? value : 0.0, "%.2f");
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

void Markup::start(const char* tag, const Attributes& attributes, const char* end) {
  out_ += '<';
  out_ += tag;
  for (const auto& [name, value] : attributes) {
    out_ += ' ';
    out_ += name;
    out_ += "=\"" + escaped(value) + "\"";
  }
  out_ += end;
}

Markup& Markup::open(const char* tag, Attributes attributes) {
  start(tag, attributes, ">");
  open_.push_back(tag);
  return *this;
}

Markup& Markup::close() {
  MC2_CHECK(!open_.empty(), "an element is closed that was not opened");
  out_ += std::string("</") + open_.back() + ">\n";
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  out_ += escaped(text);
  return *this;
}

Markup& Markup::leaf(const char* tag, Attributes attributes) {
  start(tag, attributes, "/>\n");
  return *this;
}

Markup& Markup::element(const char* tag, Attributes attributes, std::string_view content) {
  return open(tag, attributes).text(content).close();
}

Markup& Markup::add(const Markup& other) {
  out_ += other.str();
  return *this;
}

Markup& Markup::style(const char* css) {
  open("style");
  out_ += css;
  return close();
}

const std::string& Markup::str() const {
  MC2_CHECK(open_.empty(), "an element was left open");
  return out_;
}

} // namespace mc2::render
