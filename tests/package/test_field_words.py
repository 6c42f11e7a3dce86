"""The field's words are used, and what looks for others finds them."""

import pytest

import field_words


def test_no_listed_word_is_left(capsys):
    assert field_words.main() == 0, capsys.readouterr().out


@pytest.mark.together
@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("src/pkg/hats.py", "", True),
        ("src/pkg/a.py", "def make_hat(): ...", True),
        ("src/pkg/a.py", "class HatColumns: ...", True),
        ("src/pkg/a.py", "def make(n_hats): ...", True),
        ("src/pkg/a.py", "def _make_hat(): ...", False),
        ("src/pkg/a.py", "def what(): ...", False),
        ("src/pkg/a.py", 'raise ValueError(f"{n} hats are too many")', True),
        ("src/pkg/a.py", 'def f():\n    """Makes hats of it."""', False),
        ("src/pkg/a.py", '@click.command()\ndef f():\n    """Makes hats of it."""', True),
        ("src/pkg/a.py", 'KEY = "hats"', False),
        ("docs/deep/page.md", "Numbers become *hats*.", True),
        ("docs/page.md", "An estimate $\\hat\\beta$, and `hats` in code.", False),
        ("README.md", "Hats bend.", True),
        ("old.md", "Hats bend.", False),
    ],
)
def test_a_use_is_found_where_people_read_it(tmp_path, path, text, found):
    (tmp_path / "src").mkdir()
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    words = {"names": {"hat": "spline", "hats": "splines"}, "prose": {"hats": "splines"}}
    assert bool(list(field_words.uses(tmp_path, words, frozenset({"old.md"})))) is found
