// Writes man pages and shell completions of mc2 into a folder: mc2_manual FOLDER

#include <filesystem>
#include <fstream>
#include <iostream>

#include "application.hpp"
#include "manual.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: mc2_manual FOLDER\n";
    return 2;
  }
  const mc2::cli::Application application;
  for (const auto& [path, text] : mc2::cli::manual_files(application.app)) {
    const std::filesystem::path file = std::filesystem::path(argv[1]) / path;
    std::filesystem::create_directories(file.parent_path());
    if (!(std::ofstream(file) << text)) {
      std::cerr << "mc2_manual: " << file << ": cannot be written\n";
      return 6;
    }
  }
  return 0;
}
