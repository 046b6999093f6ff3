#pragma once

namespace mc2::cli {

/// Style sheet of HTML reports: the colours of page and charts, light and dark, by class name.
inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1d2126; --soft: #5b636d; --edge: #d9dde2; --grid: #e8ebee;
  --compute: #2b6cb0; --compute2: #4687c7; --comm: #b4540a; --comm2: #cf7427; --onblock: #ffffff;
  --exposed: #eceff2; --part: #7b8794; --total: #1d2126; --serial: #a3adb8; --loser: #7b8794;
  --fit: #1d2126; --band: #2b6cb033; --outside: #7f8a9626; --alone: #2b6cb0; --corun: #cf7427; --bad: #c22f2f;
  --mark: #0b7a58; --near: #0b7a58; --tried: #e4e8ec; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171b; --card: #1b2026; --ink: #e6e9ed; --soft: #a0a9b4; --edge: #343b44; --grid: #2a3038;
  --compute: #3a7cc2; --compute2: #2a639f; --comm: #b9651d; --comm2: #965014; --onblock: #ffffff;
  --exposed: #262c33; --part: #8793a1; --total: #e6e9ed; --serial: #5d6773; --loser: #8793a1;
  --fit: #e6e9ed; --band: #4a8fd64d; --outside: #8a95a126; --alone: #6aa9ea; --corun: #e69a57; --bad: #ff7b7b;
  --mark: #4cc79d; --near: #2f9a77; --tried: #2a3038; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 20px 16px 60px; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 34px 0 6px; }
h3 { font-size: 15px; margin: 24px 0 2px; overflow-wrap: anywhere; }
p { margin: 6px 0; overflow-wrap: anywhere; } li { overflow-wrap: anywhere; }
.machine { color: var(--soft); } .emulated { color: var(--bad); }
.cards { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0; }
.card { flex: 1 1 140px; background: var(--card); border: 1px solid var(--edge);
border-radius: 8px; padding: 10px 12px; }
.card .name, .card .detail { color: var(--soft); font-size: 13px; } .card .value { font-size: 19px; font-weight: 600; }
.plot { overflow-x: auto; } .plot svg { display: block; }
table { border-collapse: collapse; font-size: 13px; margin: 8px 0; }
th, td { text-align: left; vertical-align: top; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--edge); }
th { color: var(--soft); font-weight: 500; } .plot td, .plot th { white-space: nowrap; }
.plot td:nth-child(n+2):nth-child(-n+4) { white-space: normal; overflow-wrap: break-word;
min-width: 72px; max-width: 230px; }
.plot td:last-child { white-space: normal; min-width: 110px; } .facts th { white-space: nowrap; }
.facts td { overflow-wrap: anywhere; }
.legend { color: var(--soft); font-size: 13px; }
.legend span { display: inline-block; margin-right: 16px; white-space: nowrap; }
.legend svg { margin-right: 5px; vertical-align: -1px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .tick, svg .axis { fill: var(--soft); } svg .group, svg .strong { font-weight: 600; }
svg .frame { fill: none; stroke: var(--edge); } svg .grid { stroke: var(--grid); }
svg .compute { fill: var(--compute); } svg .compute.odd { fill: var(--compute2); }
svg .communication { fill: var(--comm); } svg .communication.odd { fill: var(--comm2); }
svg .onblock { fill: var(--onblock); } svg .exposed { fill: var(--exposed); } svg .onexposed { fill: var(--soft); }
svg .part { fill: var(--part); } svg .total { fill: var(--total); } svg .serial { fill: var(--serial); }
svg .loser { fill: var(--loser); }
svg .fit { fill: none; stroke: var(--fit); stroke-width: 1.6; }
svg .slowed { fill: none; stroke: var(--corun); stroke-width: 1.3; stroke-dasharray: 5 4; }
svg .band { fill: var(--band); } svg .outside { fill: var(--outside); }
svg .alone { fill: var(--alone); fill-opacity: .75; }
svg .corun { fill: none; stroke: var(--corun); stroke-width: 1.1; }
svg .outlier { stroke: var(--bad); stroke-width: 1.3; }
svg .blocksize { stroke: var(--mark); stroke-width: 1.4; stroke-dasharray: 2 3; } svg .blocktext { fill: var(--mark); }
svg .near { fill: var(--near); } svg .tried { fill: var(--tried); }
svg .change { fill: var(--card); stroke: var(--ink); stroke-width: 1.5; }
svg .today { stroke: var(--ink); stroke-width: 2; }
svg .lineone, svg .linetwo { fill: none; stroke: var(--compute); stroke-width: 2; }
svg .linetwo { stroke: var(--comm); }
svg .bandone, svg .bandtwo { fill: var(--compute); fill-opacity: .15; } svg .bandtwo { fill: var(--comm); }
svg .flip { font-size: 11px; }
@media print { body { background: #fff; } .plot { overflow: visible; } }
)css";

} // namespace mc2::cli
