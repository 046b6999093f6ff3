#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mc2::render {

/// Text for HTML and XML: markup characters escaped, and what XML 1.0 forbids replaced by U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);

/// At most `max_bytes` of UTF-8 text, cut between characters and marked with "...".
[[nodiscard]] std::string clipped(const std::string& text, std::size_t max_bytes);

/// A number for an attribute: two decimals at most.
[[nodiscard]] std::string coordinate(double value);

/// Writes nested elements that are both HTML and well-formed XML. Every text and attribute value is escaped, so
/// nothing that stands in a document can become markup. Tags and attribute names are ours.
class Markup {
 public:
  using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

  Markup& open(const char* tag, Attributes attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  /// An element without content, e.g. <rect/>.
  Markup& leaf(const char* tag, Attributes attributes);
  /// An element with nothing but text.
  Markup& element(const char* tag, Attributes attributes, std::string_view text);
  /// What another one has written. Both must be complete.
  Markup& add(const Markup& other);
  /// Our own style sheet: not escaped, must hold no '<' or '&'.
  Markup& style(const char* css);

  /// Every element must be closed.
  [[nodiscard]] const std::string& str() const;

 private:
  void start(const char* tag, const Attributes& attributes, const char* end);

  std::string out_;
  std::vector<const char*> open_;
};

} // namespace mc2::render
