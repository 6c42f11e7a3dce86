"""A product is thinned without losing a value or a pair, and cases that stand together keep their own state."""

from itertools import combinations, product

import pytest

from case_marks import covering, spread

pytest_plugins = ["pytester"]

SUITE = """
    import pytest

    @pytest.mark.cover(1)
    @pytest.mark.parametrize("a", [1, 2, 3])
    @pytest.mark.parametrize("b", ["x", "y"])
    def test_product(a, b):
        pass

    @pytest.mark.some(2)
    @pytest.mark.parametrize("a", range(9))
    def test_list(a):
        assert a in (0, 8)

    @pytest.mark.together
    @pytest.mark.parametrize("a", range(5))
    def test_gathered(a, tmp_path, monkeypatch, capsys):
        assert not list(tmp_path.iterdir())
        (tmp_path / "file").touch()
        import os
        assert "GATHERED" not in os.environ
        monkeypatch.setenv("GATHERED", "1")
        print(a)
        assert capsys.readouterr().out == f"{a}\\n"
        if a == 1:
            pytest.skip("one of five")
"""
CONFTEST = """
    import contextlib, pytest, case_marks

    def pytest_configure(config):
        for name in ("slow", "cover", "some", "together"):
            config.addinivalue_line("markers", name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items):
        case_marks.thin(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(pyfuncitem):
        if hasattr(pyfuncitem, "cases"):
            case_marks.run_cases(pyfuncitem, lambda case: contextlib.nullcontext())
            return True
"""


@pytest.mark.parametrize("sizes", [(3, 5), (6, 3, 3, 5), (2, 2, 2, 2, 2)], ids=str)
@pytest.mark.parametrize("strength", [1, 2])
def test_all_that_met_still_meets(sizes, strength):
    cases = list(product(*map(range, sizes)))
    chosen = covering(cases, strength)
    for factors in combinations(range(len(sizes)), strength):
        expected = set(product(*(range(sizes[i]) for i in factors)))
        assert {tuple(cases[c][i] for i in factors) for c in chosen} == expected
    least = sorted(sizes)[-strength:]
    assert len(chosen) <= 1.75 * (least[0] if strength == 1 else least[0] * least[1])


def test_only_what_met_is_asked_for():
    cases = [("a", 1), ("b", 2), ("b", 3)]
    assert covering(cases, 2) == [0, 1, 2]


def test_a_spread_has_both_ends():
    assert spread(9, 2) == [0, 8]
    assert spread(9, 3) == [0, 4, 8]
    assert spread(3, 5) == [0, 1, 2]


def test_quick_slow_and_gathered_cases(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SUITE)
    pytester.runpytest("-m", "not slow").assert_outcomes(passed=3 + 2 + 1, deselected=3 + 7 + 4)
    pytester.runpytest("-m", "slow").assert_outcomes(passed=3, failed=7, deselected=6 + 4)
    pytester.runpytest("-k", "test_gathered and 3").assert_outcomes(passed=0, deselected=16 + 4)


def test_a_failure_names_its_case_and_shared_state_is_refused(pytester):
    pytester.makeconftest(CONFTEST)
    path = pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def state():
            return []

        @pytest.mark.together
        @pytest.mark.parametrize("a", ["good", "bad"])
        def test_it(a):
            assert a == "good"
        """
    )
    pytester.runpytest().stdout.fnmatch_lines(["*The case is [[]bad[]].*"])
    pytester.runpytest(f"{path}::test_it[good]").assert_outcomes(passed=1)
    path.write_text(path.read_text().replace("test_it(a)", "test_it(a, state)"))
    pytester.runpytest().stderr.fnmatch_lines(["*would share state*"])
