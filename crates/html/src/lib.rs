//! Pages of results, complete in one file: light and dark, for screens and for paper.
//!
//! | file | content |
//! |---|---|
//! | `svg` | bars, lines, steps |
//! | `chart` | lines over categories and logarithms, stacked bars |
//! | `plan` | the planner's answer |

#![forbid(unsafe_code)]

pub mod chart;
pub mod plan;
pub mod svg;

use std::fmt::Write as _;

use svg::escape;

const STYLE: &str = "
:root{--paper:#fbfbf9;--ink:#1d2327;--soft:#68737b;--rule:#dfe3e4;--card:#ffffff;--a:#2f6f8f;--b:#d98e32;--c:#8a9aa3;--good:#3c8a5b;--bad:#b8483e}
@media(prefers-color-scheme:dark){:root{--paper:#15191c;--ink:#e4e8ea;--soft:#97a3ab;--rule:#2c3338;--card:#1c2226;--a:#5aa6cb;--b:#e2a552;--c:#66757e;--good:#62b384;--bad:#dc776c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,'Segoe UI',Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:36px 24px 72px}
h1{font-size:27px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:18px;margin:40px 0 12px}h3{font-size:15px;margin:20px 0 8px}
.lead{color:var(--soft);margin:0 0 24px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px 16px}
.tile b{display:block;font-size:22px;font-weight:600;line-height:1.25;overflow-wrap:anywhere}
.tile span{color:var(--soft);font-size:13px}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:600;color:var(--soft);white-space:nowrap}
th,td{padding:7px 9px;border-bottom:1px solid var(--rule);vertical-align:top}
tr:last-child td{border-bottom:0}
td.n,th.n{text-align:right;white-space:nowrap}
td.w{white-space:nowrap}
td:first-child,th:first-child{white-space:nowrap;position:sticky;left:0;background:var(--card)}
tr.best td{background:color-mix(in srgb,var(--a) 9%,var(--card))}
.plot{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px;overflow-x:auto}
svg{display:block;width:100%;min-width:700px;height:auto}
i.key{display:inline-block;width:.8em;height:.8em;border-radius:2px}i.a{background:var(--a)}i.b{background:var(--b)}i.c{background:var(--c)}
svg text{fill:var(--ink);font:13px system-ui,'Segoe UI',Roboto,sans-serif}
svg .tick,svg .label{fill:var(--soft);font-size:12px}
svg .grid,svg .axis{stroke:var(--rule);stroke-width:1}
svg .axis{stroke:var(--soft)}
.a{fill:var(--a)}.b{fill:var(--b)}.c{fill:var(--c)}.good{fill:var(--good)}.bad{fill:var(--bad)}
path.whisker{fill:none;stroke:var(--ink);stroke-width:1.5}
path.line{fill:none;stroke-width:2.5;stroke-linejoin:round}
path.a{stroke:var(--a)}path.b{stroke:var(--b)}path.c{stroke:var(--c)}path.good{stroke:var(--good)}path.bad{stroke:var(--bad)}
#knobs{display:grid;grid-template-columns:max-content minmax(0,1fr) 3.6em;gap:6px 12px;align-items:center;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px 16px;margin:14px 0 20px}
#knobs p{grid-column:1/-1;margin:6px 0 0;color:var(--soft);font-size:13px}#knobs output{text-align:right;font-variant-numeric:tabular-nums}#knobs input{accent-color:var(--a);width:100%;min-width:0}
#knobs code{overflow-wrap:anywhere;color:var(--ink)}
ul{margin:8px 0;padding-left:20px}li{margin:3px 0}
.passed{color:var(--good)}.failed{color:var(--bad)}.unknown{color:var(--soft)}
footer{color:var(--soft);font-size:13px;margin-top:48px}
.note{border-left:4px solid var(--b);background:var(--card);padding:8px 14px;margin:8px 0;border-radius:0 8px 8px 0}
.keys{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--soft);margin:8px 2px 0}.keys .key{border-radius:2px;margin-right:5px}
.s0{fill:#2f6f8f;background:#2f6f8f;stroke:#2f6f8f}.s1{fill:#d98e32;background:#d98e32;stroke:#d98e32}.s2{fill:#3c8a5b;background:#3c8a5b;stroke:#3c8a5b}
.s3{fill:#a65a9a;background:#a65a9a;stroke:#a65a9a}.s4{fill:#b8483e;background:#b8483e;stroke:#b8483e}.s5{fill:#5b6fc2;background:#5b6fc2;stroke:#5b6fc2}
.s6{fill:#9a8b2f;background:#9a8b2f;stroke:#9a8b2f}.s7{fill:#3aa0a0;background:#3aa0a0;stroke:#3aa0a0}.s8{fill:#c76f8f;background:#c76f8f;stroke:#c76f8f}
.s9{fill:#8a9aa3;background:#8a9aa3;stroke:#8a9aa3}svg .line{fill:none}svg rect{stroke:none}svg .says.in{fill:#fff}
@media(prefers-color-scheme:dark){svg .s0,.key.s0{fill:#5aa6cb;background:#5aa6cb;stroke:#5aa6cb}svg .s2,.key.s2{fill:#62b384;background:#62b384;stroke:#62b384}svg .s3,.key.s3{fill:#c583ba;background:#c583ba;stroke:#c583ba}svg .s4,.key.s4{fill:#dc776c;background:#dc776c;stroke:#dc776c}svg .s5,.key.s5{fill:#8c9de0;background:#8c9de0;stroke:#8c9de0}svg .line{fill:none}svg rect{stroke:none}}
@media print{:root{--paper:#fff;--ink:#111;--soft:#555;--rule:#ccc;--card:#fff;--a:#2f6f8f;--b:#d98e32;--c:#8a9aa3}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{max-width:none;padding:0}svg{min-width:0}.plot,.wide{overflow:visible;break-inside:avoid}h2{break-after:avoid}table{font-size:10px}th,td{padding:3px 5px}td.n,th.n,td:first-child,th:first-child,td.w{white-space:normal}tr{break-inside:avoid}}
@media(max-width:560px){main{padding:20px 12px 48px}h1{font-size:22px}}
";

/// The page up to its first head.
pub fn begin(title: &str) -> String {
    format!(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>\
         <meta name='color-scheme' content='light dark'><title>{0}</title><style>{STYLE}</style></head><body><main>\
         <h1>{0}</h1>",
        escape(title)
    )
}

/// A head and what follows it.
pub fn section(title: &str, body: &str) -> String {
    format!("<h2>{}</h2>{body}", escape(title))
}

/// A list of lines.
pub fn list<'t>(lines: impl Iterator<Item = &'t String>) -> String {
    format!("<ul>{}</ul>", lines.map(|line| format!("<li>{}</li>", escape(line))).collect::<String>())
}

/// Heads that begin with `>` are of numbers, those with `=` of words that stay in one line.
pub fn table(heads: &[&str], rows: &[(bool, Vec<String>)]) -> String {
    let class = |n: usize| match heads.get(n) {
        Some(head) if head.starts_with('>') => " class='n'",
        Some(head) if head.starts_with('=') => " class='w'",
        _ => "",
    };
    let mut out = "<div class='wide'><table><thead><tr>".to_owned();
    for (n, head) in heads.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(n), escape(head.trim_start_matches(['>', '='])));
    }
    out += "</tr></thead><tbody>";
    for (best, cells) in rows {
        out += if *best { "<tr class='best'>" } else { "<tr>" };
        for (n, cell) in cells.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(n), escape(cell));
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

/// A plot in its frame.
pub fn figure(svg: &str) -> String {
    format!("<div class='plot'>{svg}</div>")
}
