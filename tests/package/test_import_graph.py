"""The package keeps the rules of `[tool.import-graph]`, and a package that breaks one of them is told so."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from house.checks import CHECKS, violations
from house.drawing import direct_edges, dot, svg
from import_graph import ROOT, main, read_modules, read_rules

RULES = read_rules(ROOT)

SETTINGS = """
[tool.import-graph]
packages = ["tiny", "more/tiny_more"]
layers = [["low", "beside"], ["high"], ["tiny_more"]]
longest_module = 9
copied_nodes = 20
own_formulas = ["tiny.high.routes"]
public_names_in = ["tiny.high.user"]
"""
LOGIC = "def {name}({x}, shift):\n    {y} = {x} * {x} + shift\n    return [{y} / (1 + {y}), {y} - shift]\n"
KEPT = {
    "__init__.py": "",
    "low.py": "LOW = 1\n_hidden = 2\n",
    "beside.py": "",
    "high/__init__.py": "from tiny.high import _inside\nfrom tiny.low import LOW\n",
    "high/_inside.py": "_helper = 1\n",
    "high/user.py": "from tiny.high._inside import _helper\n" + LOGIC.format(name="f", x="x", y="y"),
    "high/routes.py": LOGIC.format(name="g", x="a", y="b"),
    "../more/tiny_more/__init__.py": "from tiny.high import user\n",
    "../more/tiny_more/high.py": "",
}


@pytest.fixture
def tiny(tmp_path):
    """Writes the small package with some files changed and returns what is found in it, rule by rule."""

    def write(changed=(), settings=SETTINGS):
        (tmp_path / "pyproject.toml").write_text(settings)
        for name, text in (KEPT | dict(changed)).items():
            path = tmp_path / "tiny" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


@pytest.fixture(scope="module")
def modules():
    return read_modules(ROOT, RULES)


def broken(root):
    rules = read_rules(root)
    return violations(read_modules(root, rules), rules)


@pytest.mark.parametrize("rule", CHECKS)
def test_the_package_keeps_the_rule(rule, modules):
    assert list(CHECKS[rule](modules, RULES)) == []


def test_the_graph_is_that_of_the_package(modules):
    assert len(modules) > 200
    assert "dperm.errors" in {item.target for item in modules["dperm.problem"].imports}


def test_the_small_package_keeps_all_rules(tiny):
    assert broken(tiny()) == {}
    assert main(["--root", str(tiny())]) == 0


@pytest.mark.parametrize(
    ("rule", "changed", "says"),
    [
        ("every part has a layer", {"new.py": ""}, "new stands in no layer"),
        ("imports point down", {"low.py": "import tiny.high.routes\n"}, "tiny.low:1 imports tiny.high.routes"),
        ("imports point down", {"low.py": "from tiny import beside\n"}, "tiny.low:1 imports tiny.beside"),
        ("imports point down", {"high/user.py": "import tiny_more.high\n"}, "user:1 imports tiny_more.high"),
        ("imports point down", {"low.py": "def f():\n    import tiny.high.routes\n"}, "tiny.low:2 imports tiny.high"),
        (
            "no cycles",
            {"high/a.py": "import tiny.high.b\n", "high/b.py": "def f():\n    from tiny.high import a\n"},
            "tiny.high.a <-> tiny.high.b",
        ),
        ("no relative imports", {"high/user.py": "from . import routes\n"}, "tiny.high.user:1"),
        ("no private names from another package", {"high/user.py": "from tiny.low import _hidden\n"}, "_hidden"),
        ("no private names from another package", {"high/user.py": "from tiny import low\nlow._hidden\n"}, "user:2"),
        (
            "no private names from another package",
            {"low/__init__.py": "", "low/_in.py": "A = 1\n", "high/user.py": "from tiny.low._in import A\n"},
            "tiny.high.user:1 takes A from tiny.low._in",
        ),
        (
            "no private names from another package",
            {"../more/tiny_more/user.py": "from tiny.low import _hidden\n"},
            "tiny_more.user:1 takes _hidden from tiny.low",
        ),
        (
            "no layer is reached through the public names",
            {"low.py": "import tiny\ndef f():\n    return tiny.public(1)\n"},
            "tiny.low:3 uses tiny.public",
        ),
        ("short modules", {"low.py": "\n" * 10}, "tiny.low has 10 lines, more than 9"),
        (
            "no logic twice",
            {"low.py": LOGIC.format(name="h", x="u", y="w")},
            "tiny.high.user.f (line 2), tiny.low.h (line 1)",
        ),
        (
            "no logic twice",
            {"../more/tiny_more/user.py": LOGIC.format(name="h", x="u", y="w")},
            "tiny.high.user.f (line 2), tiny_more.user.h (line 1)",
        ),
        (
            "no logic twice",
            {"high/routes/__init__.py": "", **{f"high/routes/{n}.py": KEPT["high/routes.py"] for n in "ab"}},
            "tiny.high.routes.a.g (line 1), tiny.high.routes.b.g (line 1)",
        ),
    ],
)  # fmt: skip
def test_a_broken_rule_is_told(tiny, capsys, rule, changed, says):
    root = tiny(changed)
    if any(name.startswith(("low/", "high/routes/")) for name in changed):  # a package in place of a module
        (root / "tiny" / f"{next(iter(changed)).removesuffix('/__init__.py')}.py").unlink()
    found = broken(root)
    assert list(found) == [rule]
    assert any(says in line for line in found[rule])
    assert main(["--root", str(root)]) == 1
    assert says in capsys.readouterr().out


def test_what_only_types_need_makes_no_cycle_but_points_down_too(tiny):
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tiny.high.{}\n"
    assert broken(tiny({"high/a.py": types.format("b"), "high/b.py": "import tiny.high.a\n"})) == {}
    assert list(broken(tiny({"low.py": types.format("user")}))) == ["imports point down"]


def test_versions_modules_and_modules_that_may_do_not_reach_through_public_names(tiny):
    text = "import tiny\nA = tiny.__version__, tiny.low.LOW\n"
    assert broken(tiny({"beside.py": "import tiny\nA = tiny.__version__\n"})) == {}
    assert broken(tiny({"high/user.py": text + "B = tiny.public\n"})) == {}


def test_two_short_bodies_are_no_copy(tiny):
    short = "def f(x):\n    return x + 1\n"
    assert broken(tiny({"low.py": short, "beside.py": short})) == {}


def test_the_drawings_show_every_part_and_module(modules):
    graph = dot(modules)
    assert all(f'"{name}"' in graph for name in modules)
    assert '"dperm.problem" -> "dperm.errors"' in graph
    drawn = ElementTree.fromstring(svg(modules, RULES))
    assert {node.text for node in drawn.iter() if node.tag.endswith("}text")} == RULES.level.keys()


def test_the_drawings_go_where_they_are_asked_to(tiny, tmp_path):
    graph, drawn = tmp_path / "a.dot", tmp_path / "a.svg"
    assert main(["--root", str(tiny()), "--dot", str(graph), "--svg", str(drawn)]) == 0
    assert '"tiny.high" -> "tiny.low"' in graph.read_text()
    assert "<svg" in drawn.read_text()


def test_the_picture_of_the_page_on_the_architecture_is_current(modules):
    drawn = (ROOT / "docs" / "_static" / "imports.svg").read_text(encoding="utf-8")
    assert drawn == svg(modules, read_rules(ROOT)), "make tables draws it again"


def test_an_edge_that_a_longer_way_implies_is_not_drawn():
    assert direct_edges({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_the_page_on_the_architecture_draws_the_same_layers():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = re.search(r"^## The layers\n.*?^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    rows = [re.split(r"\s{2,}", line)[0].split(" │ ") for line in drawing.splitlines() if line[0] != " "]
    assert [set(row) for row in reversed(rows)] == [set(layer) for layer in RULES.layers]
