#include "pages/report.hpp"

#include <CLI/CLI.hpp>
#include <iostream>

#include "mc2/store/codec.hpp"

namespace mc2::cli {

void add_json(CLI::App& command, bool& is_json, std::string_view what) {
  command.add_flag("--json", is_json, "print " + std::string(what) + " as JSON");
}

void print_report(std::string_view kind, nlohmann::ordered_json document) {
  document["schema"] = kind;
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

DocumentPrinter::~DocumentPrinter() {
  if (is_array_) std::cout << (count_ == 0 ? "[]\n" : "]\n");
}

void DocumentPrinter::print(std::string_view document) {
  if (is_array_) std::cout << (count_ == 0 ? "[\n" : ",\n");
  ++count_;
  std::cout << store::pretty(document);
}

} // namespace mc2::cli
