from ordrank_experiments.report import Section, as_page


def test_text_of_reports_is_escaped():
    section = Section("<b>", sentences=["<b>"], tables=[(["<b>"], [["<b>&"]])])
    page = as_page("<b>", [section], {}, {}).decode()
    assert "<b>" not in page
    assert page.count("&lt;b&gt;") >= 5
