// Writes a C++ file with the bytes of the files that `vite build` made.
// usage: node embed.mjs DIST OUTPUT.cpp
import {createHash} from "node:crypto";
import {readdirSync, readFileSync, writeFileSync} from "node:fs";
import {basename, extname, join} from "node:path";

const [dist, output] = process.argv.slice(2);

const contentTypes = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

function typeOf(path) {
  const type = contentTypes[extname(path)];
  if (!type) throw new Error(`${path}: no content type is known for it; add one to embed.mjs`);
  return type;
}

const paths = [join(dist, "index.html"), ...readdirSync(join(dist, "assets")).sort().map((name) => join(dist, "assets", name))];
let arrays = "", rows = "";
paths.forEach((path, i) => {
  const bytes = readFileSync(path);
  arrays += `const unsigned char kBytes${i}[] = {${bytes.join(",")}};\n`;
  const digest = createHash("sha256").update(bytes).digest("hex");
  rows += `    DashboardFile{"${basename(path)}", "${typeOf(path)}", "${digest}", kBytes${i}},\n`;
});

writeFileSync(output, `// Written by server/web/embed.mjs.
#include <array>

#include "dashboard.hpp"

namespace mc2::server {
namespace {

${arrays}
constexpr std::array kFiles{
${rows}};

} // namespace

std::span<const DashboardFile> dashboard_files() noexcept { return kFiles; }

} // namespace mc2::server
`);
