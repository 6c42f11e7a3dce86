"""The one style sheet: of pages by day, by night, on a telephone and on paper, of what a notebook shows, of figures.

``_SHARED`` is how tables, lists and drawings look everywhere. A page adds its layout; in a notebook the rules hold
inside an element of the class ``dperm`` only, and colours are those of the notebook around it.
"""

from collections.abc import Mapping

# Okabe and Ito's palette without its yellow, and wine; markers tell the lines apart in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255")
GREY = "#5F5F5F"
FAINT = "#E2E2E2"

LIGHT = {
    "ink": "#1c2330",
    "dim": "#566072",
    "paper": "#f6f6f3",
    "card": "#ffffff",
    "line": "#d9dde4",
    "good": "#1b7f4b",
    "bad": "#b3261e",
    "none": "#8a5a00",
    "own": "#2457c5",
    "claim": "#b4690e",
    "tint": "#eef1f6",
    "alarm": "#fdecea",
}
DARK = {
    "ink": "#e7eaf0",
    "dim": "#9aa4b5",
    "paper": "#12151b",
    "card": "#1a1f28",
    "line": "#323a47",
    "good": "#57c98d",
    "bad": "#ff8a80",
    "none": "#e2b04a",
    "own": "#7ea6ff",
    "claim": "#f0a95a",
    "tint": "#222936",
    "alarm": "#3b1f1f",
}
_PRINT = {**dict.fromkeys(LIGHT, "#000"), **dict.fromkeys(("paper", "card", "tint", "alarm"), "#fff")}
_PRINT |= {"dim": "#333", "line": "#999", "claim": "#555"}
_NOTEBOOK = {  # which may be light or dark, whatever the system prefers
    "ink": "currentColor",
    "dim": "color-mix(in srgb, currentColor 68%, transparent)",
    "card": "transparent",
    "line": "#8884",
    "good": "currentColor",
    "bad": "#d2342b",
    "none": "#a8730f",
    "own": "#3f78e0",
    "alarm": "transparent",
}


def colours(selector: str, named: Mapping[str, str]) -> str:
    """Custom properties, one for each colour."""
    return f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in named.items())} }}\n"


_SHARED = """
& p { margin: 8px 0; } & .dim { color: var(--dim); } & .good { color: var(--good); font-weight: 600; }
& .bad { color: var(--bad); font-weight: 600; }
& .alarm { padding: 10px 14px; border: 2px solid var(--bad); border-radius: 6px; background: var(--alarm);
  color: var(--bad); font-weight: 600; }
& .wide { overflow-x: auto; margin: 12px 0 0; } & table { border-collapse: collapse; font-size: .93rem; }
& th, & td { text-align: left; padding: 6px 14px 6px 0; border: 0; border-bottom: 1px solid var(--line);
  background: none; vertical-align: top; overflow-wrap: break-word; }
& th { font-weight: 600; color: var(--dim); vertical-align: bottom; }
& td.n, & th.n { text-align: right; font-variant-numeric: tabular-nums; } & td.n { white-space: nowrap; }
& td.l, & th.l { font-variant-numeric: tabular-nums; }
& .cells td { position: relative; padding: 6px 14px 6px 10px; }
& .cells td i { position: absolute; inset: 2px; background: var(--own); border-radius: 4px; }
& .cells td span { position: relative; }
& .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(270px, 100%), 1fr)); gap: 18px; }
& figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px; }
& figcaption { font-size: .9rem; color: var(--dim); margin-bottom: 4px; }
& .curves { max-width: 720px; margin: 14px 0; } & .curves figure { max-width: 360px; break-inside: avoid; }
& svg { width: 100%; height: auto; display: block; } & svg text { fill: var(--dim); font-size: 11.5px; }
& svg.small { width: 124px; } & svg .axis { fill: var(--ink); font-size: 12.5px; }
& .grid { stroke: var(--line); stroke-width: 1; } & .bar { fill: var(--own); } & .dot { fill: var(--own); }
& .reach { stroke: var(--own); stroke-width: 6; stroke-opacity: .35; fill: none; }
& .band { fill: var(--own); fill-opacity: .2; }
& polyline { fill: none; stroke-width: 2.4; } & .own { stroke: var(--own); stroke-width: 2.4; }
& .claim { stroke: var(--claim); stroke-dasharray: 7 4; }
& .guess { stroke: var(--dim); stroke-width: 1.4; stroke-dasharray: 2 4; }
& .thin { stroke: currentColor; stroke-width: 1.5; }
& ul { padding-left: 20px; margin: 6px 0; } & li { margin: 3px 0; }
@media (max-width: 520px) { & .drawn { display: none; } & .l .dim { display: block; } }
"""

CELL = colours(".dperm", _NOTEBOOK) + _SHARED.replace("&", ".dperm")
"""What a notebook needs."""

PAGE = (
    colours(":root", LIGHT)
    + ":root { color-scheme: light dark; }\n"
    + f"@media (prefers-color-scheme: dark) {{ {colours(':root', DARK)} }}"
    + _SHARED.replace("& ", "")
    + """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); border-top: 6px solid var(--good);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif; }
body.fails { border-top-color: var(--bad); background: var(--alarm); }
main { max-width: 900px; margin: 0 auto; padding: 28px 18px 60px; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 14px; } h2 { font-size: 1.15rem; margin: 0 0 8px; }
h3 { font-size: 1rem; margin: 18px 0 6px; }
.kind { margin: 0; color: var(--dim); font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; }
section { margin: 34px 0 0; } table { width: 100%; }
.note { padding: 8px 12px; background: var(--tint); border-radius: 6px; font-size: .93rem; }
.blank { color: var(--none); font-style: italic; border-bottom: 1px dotted var(--none); }
.blank small { font-style: normal; opacity: .85; }
.verdict { margin: 22px 0 0; padding: 18px 20px; background: var(--card); border: 1px solid var(--line);
  border-left: 8px solid var(--bad); border-radius: 8px; color: inherit; font-weight: inherit; }
.verdict.good { border-left-color: var(--good); } .verdict.bad { border-left-color: var(--bad); }
.verdict .stands { margin: 0 0 2px; font-size: .85rem; font-weight: 700; letter-spacing: .05em;
  text-transform: uppercase; color: var(--good); }
.fails .verdict .stands { color: var(--bad); }
.verdict strong { display: block; font-size: 1.4rem; line-height: 1.3; }
.verdict.good strong { color: var(--good); } .verdict.bad strong { color: var(--bad); }
dl.facts { margin: 8px 0; display: grid; grid-template-columns: 1fr 1fr; gap: 0 26px; }
dl.facts.long { grid-template-columns: 1fr; }
dl.facts > div { padding: 6px 0; border-bottom: 1px solid var(--line); display: grid;
  grid-template-columns: 9.5em 1fr; gap: 12px; }
dl.long > div { grid-template-columns: 12em 1fr; }
dt { color: var(--dim); font-size: .9em; line-height: 1.7; } dd { margin: 0; min-width: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 10px 0; font-size: .9rem; color: var(--dim); }
.legend i { display: inline-block; width: 26px; border-top: 3px solid; vertical-align: middle; margin-right: 7px; }
.legend .l-claim { border-top-style: dashed; border-color: var(--claim); } .legend .l-own { border-color: var(--own); }
.legend .l-guess { border-top-style: dotted; border-color: var(--dim); }
.spent { display: flex; height: 18px; border: 1px solid var(--line); border-radius: 5px; overflow: hidden;
  background: var(--card); margin: 10px 0 6px; } .spent i { display: block; }
.past { background: var(--dim); } .mine { background: var(--own); }
.legend b { display: inline-block; width: 13px; height: 13px; border: 1px solid var(--line); border-radius: 3px;
  vertical-align: -2px; margin-right: 7px; }
pre { overflow-x: auto; } .nb { white-space: nowrap; }
.words { table-layout: fixed; } .words td, .charges td:nth-child(3) { overflow-wrap: anywhere; }
.words td:first-child, .words th:first-child { width: 30%; }
.checks th:nth-child(2) { width: 22%; } .figures { width: auto; } .figures td, .figures th { padding-right: 30px; }
sup { line-height: 0; }
.ok { color: var(--good); } .failed { color: var(--bad); font-weight: 600; } .unmet { color: var(--bad); }
.caution { color: var(--none); }
code { font: .86em/1.4 ui-monospace, "DejaVu Sans Mono", monospace; }
.pyramid .level { background: var(--card); border: 1px solid var(--line); padding: 8px 18px 12px; margin: 10px auto 0;
  border-radius: 8px; } .level h3 { margin: 4px 0 6px; }
.level.top { max-width: 76%; } .level.middle { max-width: 88%; }
.level dl.facts > div:last-child { border-bottom: 0; }
.sign { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 18px; margin: 12px 0;
  display: grid; grid-template-columns: 1fr 1fr; gap: 12px 26px; }
.sign > div { border-bottom: 1px solid var(--ink); min-height: 58px; } .sign .decision { grid-column: 1 / -1; }
.sign label { color: var(--dim); font-size: .8rem; } .sign p { margin: 0 0 6px; }
.box { margin-right: 28px; white-space: nowrap; }
.box::before { content: ""; display: inline-block; width: 15px; height: 15px; border: 1.5px solid var(--ink);
  margin-right: 8px; vertical-align: -2px; }
.annex { font-size: .93rem; border-top: 1px solid var(--line); padding-top: 22px; }
@media (max-width: 640px) { main { padding: 18px 14px 40px; } h1 { font-size: 1.4rem; } th, td { padding-right: 10px; }
  dl.facts { grid-template-columns: 1fr; } dl.facts > div, dl.long > div { grid-template-columns: 1fr; gap: 0; }
  .figures td, .figures th { padding-right: 14px; } .level.top, .level.middle { max-width: none; }
  .sign { grid-template-columns: 1fr; }
  .verdict { padding: 14px; } .verdict strong { font-size: 1.2rem; } }
@page { margin: 16mm 15mm 18mm; }
"""
    + f"@media print {{ {colours(':root', _PRINT)}"
    + """
  :root { font-size: 10pt; } body, body.fails { background: #fff; border: 0; font-size: 1rem; line-height: 1.35; }
  th, td, dl.facts > div { padding-top: 3pt; padding-bottom: 3pt; }
  main { max-width: none; padding: 0; } section { margin-top: 13pt; }
  .note, .verdict.bad, .alarm { border: 1.5pt solid #000; } .verdict { border: 1.5pt solid #000; }
  .wide { overflow: visible; } h2, h3, th, h2 + p { break-after: avoid; } p, li { orphans: 3; widows: 3; }
  .verdict, figure, .sign, .level, .keep, tr, dl.facts > div, .signature, .spent, .legend { break-inside: avoid; }
  .plots { grid-template-columns: 1fr 1fr; } .annex { break-before: page; }
  .spent i, .legend b { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .past { background: #999; } .mine { background: #000; }
  .sign > div { min-height: 40pt; } }
"""
)
"""What a page to sign needs."""
