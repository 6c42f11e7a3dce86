"""The tables of the study go between the markers of its page, and nothing else changes."""

import pytest

from study_tables import BEGIN, END, FIGURES, PAGE, inserted, main

REPORT = "# defaults: title\n\nthis library.\n\n| a | b |\n| --- | --- |\n\n## Checks\n\n- holds\n"


def test_tables_go_between_the_markers_again_and_again():
    page = f"# Page\n\n{BEGIN}before\n{END}\n## After\n"
    once = inserted(page, REPORT)
    assert once.startswith(f"# Page\n\n{BEGIN}")
    assert once.endswith(f"{END}\n## After\n")
    assert "before" not in once
    assert "# defaults: title" not in once
    assert "\n### Checks\n" in once  # below the heading of its section
    assert inserted(once, REPORT) == once


def test_the_page_has_its_markers():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    with pytest.raises(SystemExit, match="markers"):
        inserted("# Page\n", REPORT)


def test_tables_and_figures_come_from_the_folder_of_a_run(tmp_path):
    study, docs = tmp_path / "out" / "defaults", tmp_path / "docs"
    study.mkdir(parents=True)
    (docs / "_static").mkdir(parents=True)
    (study / "report.md").write_text(REPORT, encoding="utf-8")
    for name in FIGURES:
        (study / name).write_text(name)
    page = docs / "defaults.md"
    page.write_text(f"# Page\n\n{BEGIN}{END}", encoding="utf-8")
    main(str(tmp_path / "out"), page)
    assert "| a | b |" in page.read_text(encoding="utf-8")
    for name, shown in FIGURES.items():
        assert (docs / "_static" / shown).read_text() == name
        assert f"_static/{shown}" in PAGE.read_text(encoding="utf-8")
