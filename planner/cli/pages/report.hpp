#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace CLI {
class App;
}

namespace mc2::cli {

/// Adds `--json`: `what`, e.g. "the plan", is printed as one JSON document, and standard output gets nothing else.
void add_json(CLI::App& command, bool& is_json, std::string_view what);

/// Prints a document of a kind that has a schema; "mc2.doctor/1" has schemas/doctor.schema.json. Bytes that are not
/// UTF-8 become U+FFFD.
void print_report(std::string_view kind, nlohmann::ordered_json document);

/// Prints documents as they come: each by itself, or all as one array. The destructor ends the array, so that it is
/// complete even after an error.
class DocumentPrinter {
 public:
  explicit DocumentPrinter(bool is_array) : is_array_(is_array) {}
  ~DocumentPrinter();
  DocumentPrinter(const DocumentPrinter&) = delete;
  DocumentPrinter& operator=(const DocumentPrinter&) = delete;

  /// @param document  canonical JSON, as store::encode writes it
  void print(std::string_view document);

 private:
  bool is_array_;
  int count_ = 0;
};

} // namespace mc2::cli
