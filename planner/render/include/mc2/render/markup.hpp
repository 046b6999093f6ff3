#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mc2::render {

/// Text for HTML and XML: markup characters are escaped, and characters that XML 1.0 forbids become U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);

/// The UTF-8 text itself, or at most its first `max_bytes` bytes, cut between characters, and "...".
[[nodiscard]] std::string clipped(const std::string& text, std::size_t max_bytes);

/// A number for an attribute, with at most two decimals; 0 if not finite.
[[nodiscard]] std::string coordinate(double value);

/// Writes nested elements that are both HTML and well-formed XML. Escapes every text and attribute value, so that no
/// text from a document can become markup. Tags and attribute names are not escaped: they come from mc2's own code.
class Markup {
 public:
  using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

  Markup& open(const char* tag, Attributes attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  /// An element without content, e.g. <rect/>.
  Markup& leaf(const char* tag, Attributes attributes);
  /// An element that holds only text.
  Markup& element(const char* tag, Attributes attributes, std::string_view text);
  /// Appends what `other` has written; all elements of `other` must be closed.
  Markup& add(const Markup& other);
  /// A style sheet of mc2's own. It is not escaped and must hold no '<' or '&'.
  Markup& style(const char* css);

  /// The text written so far. Every element must be closed.
  [[nodiscard]] const std::string& str() const;

 private:
  void start(const char* tag, const Attributes& attributes, const char* end);

  std::string out_;
  std::vector<const char*> open_;
};

} // namespace mc2::render
